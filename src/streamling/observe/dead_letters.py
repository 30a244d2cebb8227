"""The last rejected rows of each node."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

#: rows that are kept per node, and characters of a payload
CAPACITY: Final = 50
_LONGEST: Final = 2000


@dataclass(frozen=True)
class RejectedRow:
    time: str
    node: str
    error: str
    position: str | None
    payload: str | None

    def as_object(self) -> dict[str, str | None]:
        return dict(vars(self))


class RecentDeadLetters:
    """Keeps the last of the rows that dead-letter sinks receive."""

    def __init__(self) -> None:
        self._rows: dict[str, deque[RejectedRow]] = {}
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, node: str, letters: pa.RecordBatch) -> None:
        """Keep the last of ``letters``, which have the columns of a dead-letter sink."""
        newest = letters.slice(max(0, letters.num_rows - CAPACITY)).select(["error", "position", "payload"])
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        rows = [RejectedRow(time, node, *map(_cut, row.values())) for row in newest.to_pylist()]  # type: ignore[arg-type]
        with self._lock:
            self._rows.setdefault(node, deque(maxlen=CAPACITY)).extend(rows)
            self._counts[node] = self._counts.get(node, 0) + letters.num_rows

    def count(self, node: str) -> int:
        """Return the rows that ``node`` has rejected so far."""
        with self._lock:
            return self._counts.get(node, 0)

    def recent(self, node: str | None = None, limit: int = CAPACITY) -> list[RejectedRow]:
        """Return the last rejected rows, newest first; of all nodes if ``node`` is None."""
        with self._lock:
            found = [row for name, rows in self._rows.items() if node in (None, name) for row in reversed(rows)]
        return sorted(found, key=lambda row: row.time, reverse=True)[:limit]


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
