"""When generated rows are due."""

from __future__ import annotations

#: seconds between two batches: slower rates deliver each row at its own time, faster ones some rows at a time
_TICK = 0.02
#: rows that could not be delivered in time are made up for if they are late by at most these seconds
_CATCH_UP = 1.0


class Pace:
    """Spreads rows evenly over time. Times are seconds of a monotonic clock."""

    def __init__(self, rows_per_second: float) -> None:
        self._rate = rows_per_second
        #: when the next row is due; None before the first one
        self._next_row: float | None = None
        self._next_batch = 0.0

    def take(self, now: float, most: int) -> int:
        """Return how many rows to deliver now, at most ``most``; 0 if it is too early."""
        if self._next_row is None:
            self._next_row = self._next_batch = now
        if now < self._next_batch:
            return 0
        self._next_row = max(self._next_row, now - _CATCH_UP)
        rows = min(int((now - self._next_row) * self._rate) + 1, most)
        self._next_row += rows / self._rate
        self._next_batch = max(self._next_row, now + _TICK) if rows < most else now
        return rows

    def wait(self, now: float) -> float:
        """Return the seconds until the next batch."""
        return max(self._next_batch - now, 0.0)
