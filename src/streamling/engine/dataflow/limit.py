"""Ends a pipeline after a number of rows (`num_records_before_stop`)."""

from __future__ import annotations

import threading
from collections.abc import Callable


class RowLimit:
    """The number of rows that all instances of one sink may still write. Without a limit it only counts rows."""

    def __init__(
        self,
        rows: int | None,
        reached: Callable[[str, bool], None],
        first: Callable[[], None] = lambda: None,
    ) -> None:
        """``reached`` is called with a sentence and with whether rows were dropped: then the unfinished epoch must not
        be committed, because its last rows were not written. ``first`` is called when the first rows arrive."""
        self._rows = rows
        self._reached = reached
        self._first: Callable[[], None] | None = first
        self._lock = threading.Lock()
        self.taken = 0

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit, so that a sink that Spark writes has to count its rows."""
        return self._rows is not None

    def take(self, rows: int) -> int:
        """Return how many of ``rows`` may be written."""
        with self._lock:
            allowed = rows if self._rows is None else max(0, min(rows, self._rows - self.taken))
            self.taken += allowed
            first, self._first = self._first, None
        if first is not None:
            first()
        if self._rows is not None and self.taken >= self._rows:
            self._reached(f"{self._rows} records written", allowed < rows)
        return allowed
