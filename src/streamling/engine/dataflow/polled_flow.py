"""A flow that polls its source for batches."""

from __future__ import annotations

from typing import Any

from streamling.engine.dataflow.polling import PollingFlow
from streamling.plugins.sources import End, Position, Source, SourceBatch, Wait


class PolledFlow(PollingFlow[Source[Any]]):
    """Polls its source for one batch after another."""

    def _flow(self) -> None:
        restored = self._position
        if self._poll(self._read):
            self._end(restored)
        while not self._closed.is_set():
            self._idle(None)

    def _read(self, position: Position) -> SourceBatch | Wait | End:
        step = self._source.read(position)
        if isinstance(step, Wait):
            self._notice_caught_up(True)
        return step
