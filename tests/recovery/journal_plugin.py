"""A sink for kill tests: rows reach the file at flush, and stay there whatever happens to the process."""

from __future__ import annotations

import json
import os
import time

from pydantic import Field

from streamling.plugins import Sink, SinkOptions, plugin


class JournalOptions(SinkOptions):
    file: str = Field(description="JSON lines are appended here.")
    delay_ms: int = Field(default=0, description="Time a write takes.")


@plugin("journal")
class JournalSink(Sink[JournalOptions]):
    """Buffers until flush, then appends and syncs: what is in the file is durable."""

    Options = JournalOptions

    def open(self) -> None:
        self._file = open(self.options.file, "a", encoding="utf-8")  # noqa: SIM115 - closed in close
        self._lines: list[str] = []

    def write(self, batch) -> None:
        time.sleep(self.options.delay_ms / 1000)
        self._lines += [json.dumps({"run": os.getpid(), **row}) for row in batch.to_pylist()]

    def flush(self) -> None:
        self._file.write("".join(line + "\n" for line in self._lines))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._lines = []

    def close(self) -> None:
        self._file.close()
