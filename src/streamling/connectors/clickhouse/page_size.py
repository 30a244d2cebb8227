"""How many rows to read with one query."""

from __future__ import annotations

from typing import Final

#: Pages are held in memory, a few at a time: one is read by a sink while the next ones arrive.
TARGET_BYTES: Final = 32 << 20
#: if the size of rows is not known
_FIRST_ROWS: Final = 1 << 16
#: rows of very different sizes: a page is given up when it is this many times as large as intended
_TOLERANCE: Final = 8


class PageSize:
    """The number of rows per page: as many as fit into `TARGET_BYTES`, at most ``most``; fewer after a query was too
    large. Other threads may ask for it."""

    def __init__(self, most: int, row_bytes: float | None = None) -> None:
        """``row_bytes`` is the average size of a row, if it is known."""
        self._most = most
        self._rows = min(most, _FIRST_ROWS if row_bytes is None else max(1, int(TARGET_BYTES / max(row_bytes, 1))))

    def rows(self) -> int:
        return self._rows

    @property
    def most_bytes(self) -> int | None:
        """Bytes after which a page is given up; None if it cannot be smaller."""
        return TARGET_BYTES * _TOLERANCE if self.can_shrink else None

    @property
    def can_shrink(self) -> bool:
        return self._rows > 1

    def shrink(self, rows: int) -> None:
        """Make pages smaller: a query for this many rows was too large."""
        self._rows = max(1, min(rows, self._rows) // 2)

    def grow(self, rows: int, size: int) -> None:
        """Make pages up to twice as large after one with this many rows and bytes has been read. Call it in the order
        of the pages: a page that was read ahead says nothing about one that was too large."""
        fitting = TARGET_BYTES * rows // max(1, size)
        if rows:
            self._rows = max(1, min(self._most, fitting, max(self._rows, 2 * rows)))
