"""Side outputs in the network: they receive the rows of a node before its consumers do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamling.engine.dataflow.rows import Rows
from streamling.errors import StreamlingError
from streamling.pipeline.error_locations import node_errors
from streamling.pipeline.model import Node
from streamling.plugins.side_outputs import SideOutput
from streamling.spark.local_frames import to_arrow

#: called with the name of the sink instance or side output that acknowledges, the epoch, and the entries to store
#: together with its positions
OnAck = Callable[[str, int, Mapping[str, Any]], None]


class SideOutputStep:
    """One side output. Like a sink it is a port for markers: an epoch is complete when its rows have been received."""

    def __init__(
        self,
        node: Node,
        operator: SideOutput[Any],
        on_ack: OnAck,
        on_failure: Callable[[StreamlingError], None],
    ) -> None:
        self.node = node
        self.operator = operator
        self._on_ack = on_ack
        self._on_failure = on_failure
        #: flows that meet in the node take turns: the rows of one batch are in order, those of two are not
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        #: the last marker of each producer
        self._marked: dict[str, int] = {}
        self._complete = 0

    def open(self) -> None:
        with node_errors(self.node):
            self.operator.open()

    def close(self) -> None:
        with node_errors(self.node):
            self.operator.close()

    @contextmanager
    def showing(self, upstream: str, rows: Rows) -> Iterator[None]:
        """Pass ``rows`` to the side output; the block then passes them to the consumers."""
        with self._turn:
            self._show(upstream, rows)
            complete = False
            try:
                yield
                complete = True
            finally:
                with node_errors(self.node):
                    self.operator.after_emit(complete)

    def _show(self, upstream: str, rows: Rows) -> None:
        selecting = Rows(rows.session, lineage=(*rows.lineage, (self.node, self.operator)))
        inputs = {upstream: rows.numbered()}
        table = selecting.run(lambda: to_arrow(self.operator.select(rows.session, inputs)), self.node, "selecting")
        with self._lock:
            after = self._marked.get(rows.producer, 0)
        with node_errors(self.node):
            self.operator.before_emit(table, after)

    # ── markers ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def completed(self) -> int:
        """The last epoch whose rows have all been received."""
        return self._complete

    def add_feeder(self, name: str) -> None:
        self._marked[name] = 0

    def mark(self, feeder: str, epoch: int) -> None:
        with self._lock:
            self._marked[feeder] = epoch
            complete = min(self._marked.values()) >= epoch > self._complete
            if complete:
                self._complete = epoch
        if complete:
            with node_errors(self.node):
                entries = self.operator.marker(epoch)
            self._on_ack(self.node.name, epoch, entries)

    def notify_finalized(self, epoch: int) -> None:
        try:
            with node_errors(self.node):
                self.operator.finalized(epoch)
        except StreamlingError as error:
            self._on_failure(error)
