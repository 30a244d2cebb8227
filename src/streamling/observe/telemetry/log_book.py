"""The last log records of each pipeline."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

from streamling.observe.telemetry.logging import pipeline_of_thread
from streamling.observe.terminal.printable import printable_lines
from streamling.redaction import redact

#: records that are kept per pipeline
CAPACITY = 500
#: deleted pipelines whose records are kept
_RETIRED = 100
#: a longer message is cut: a peer may have written it
_LONGEST = 4000
_NODE = "streamling.node."


@dataclass(frozen=True)
class LogRecord:
    """One record; secrets are masked."""

    number: int
    time: str
    level: str
    node: str | None
    message: str

    def as_object(self) -> dict[str, str | None]:
        return {"time": self.time, "level": self.level, "node": self.node, "message": self.message}


class LogBook(logging.Handler):
    """A logging handler that keeps the last records of each pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self._rings: dict[str, deque[LogRecord]] = {}
        self._numbers: dict[str, int] = {}
        self._retired: deque[str] = deque()
        self._guard = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        pipeline = pipeline_of_thread()
        if pipeline:
            node = record.name.removeprefix(_NODE) if record.name.startswith(_NODE) else None
            time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
            level = "WARN" if record.levelname == "WARNING" else record.levelname
            self.add(pipeline, time, level, node, record.getMessage())

    def add(self, pipeline: str, time: str, level: str, node: str | None, message: str) -> None:
        """Add a record of ``pipeline``."""
        text = printable_lines(redact(message))[:_LONGEST]
        with self._guard:
            number = self._numbers[pipeline] = self._numbers.get(pipeline, 0) + 1
            ring = self._rings.setdefault(pipeline, deque(maxlen=CAPACITY))
            ring.append(LogRecord(number, time, level, node, text))

    def tail(self, pipeline: str, count: int) -> list[LogRecord]:
        """Return the last ``count`` records."""
        with self._guard:
            return list(self._rings.get(pipeline, ()))[-count:] if count else []

    def after(self, pipeline: str, number: int) -> list[LogRecord]:
        """Return the records after the one with this number."""
        with self._guard:
            return [record for record in self._rings.get(pipeline, ()) if record.number > number]

    def last_number(self, pipeline: str) -> int:
        with self._guard:
            return self._numbers.get(pipeline, 0)

    def retire(self, pipeline: str) -> None:
        """Handle the deletion of a pipeline: its records are kept for whoever follows them, until many others were
        deleted."""
        with self._guard:
            self._retired.append(pipeline)
            while len(self._retired) > _RETIRED:
                oldest = self._retired.popleft()
                self._rings.pop(oldest, None)
                self._numbers.pop(oldest, None)
