"""Divides a table into pages along its sorting key.

If the first key is an integer, a page is a range of its values: the rows of several ranges are counted with one query,
and ranges with few rows are joined. Otherwise, and inside a single value that has more rows than a page, a page ends at
the key of every n-th row. All ends are known before rows are read, so pages can be read in parallel and anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from streamling.connectors.clickhouse.key_types import KeyValue
from streamling.connectors.clickhouse.sort_key import After, Cut, From, SortKey
from streamling.errors import StreamlingError

#: ranges that are counted with one query
BUCKETS: Final = 16
#: keys of page ends that are read with one query
ENDS: Final = 8
#: pages that the ranges of one query should make up
_PAGES_PER_COUNT: Final = 4
#: how much wider the next ranges are at most
_GROWTH: Final = 16


class QueryTooLarge(StreamlingError):
    """A limit of the server, such as one for time or memory, was exceeded: a smaller part of the table may work."""

    #: rows that the query was about, if they had been counted
    rows: int | None = None


@dataclass(frozen=True)
class Page:
    """The rows between two cuts."""

    start: Cut
    end: Cut
    #: how many rows were counted; others may be inserted until they are read
    rows: int


@dataclass(frozen=True)
class Bucket:
    """Rows whose first key is in one of several ranges of equal width."""

    number: int
    rows: int
    #: the largest key
    last: int


class KeyCounts(Protocol):
    """Questions about the keys of a table. Any of them may raise `QueryTooLarge`."""

    def buckets(self, start: int, width: int) -> list[Bucket]:
        """Return the rows of `BUCKETS` ranges of ``width`` values of the first key from ``start``; only those with
        rows."""

    def first_key(self, start: Cut) -> int | None:
        """Return the first key of the first row after ``start``."""

    def page_ends(self, start: Cut, end: Cut | None, rows: int) -> list[tuple[KeyValue, ...]]:
        """Return the keys of every ``rows``-th row after ``start``, in order: at most `ENDS` of them."""

    def last_row(self, start: Cut, end: Cut | None) -> tuple[tuple[KeyValue, ...], int] | None:
        """Return the key of the last row after ``start``, and how many rows there are; None if there is none."""


class PagePlan:
    """Finds the pages of a table, one after the other."""

    def __init__(self, key: SortKey, counts: KeyCounts, page_rows: Callable[[], int], first_range: int) -> None:
        """``page_rows`` is asked again for every few pages. ``first_range`` is the number of values of an integer key
        that are counted first."""
        self._key = key
        self._counts = counts
        self._page_rows = page_rows
        self._first_range = first_range

    def pages(self, start: Cut) -> Iterator[Page]:
        """Return the pages after ``start``. Those that would be empty are left out."""
        return self._by_rows(start, None) if self._key.integers is None else self._by_ranges(start, self._key.integers)

    def parts(self, page: Page) -> Iterator[Page]:
        """Divide a page."""
        return self._by_rows(page.start, page.end)

    # ── ranges of an integer ────────────────────────────────────────────────────────────────────────────────

    def _by_ranges(self, start: Cut, integers: range) -> Iterator[Page]:
        if isinstance(start, After):
            first = start.values[0]
            assert isinstance(first, int)
            yield from self._by_rows(start, From(first + 1))
            start = From(first + 1)
        at = self._counts.first_key(start)
        width = max(1, self._first_range // BUCKETS)
        while at is not None:
            try:
                buckets = self._counts.buckets(at, width)
            except QueryTooLarge:
                if width == 1:
                    raise
                width = max(1, width // BUCKETS)
                continue
            if buckets:
                at, width = yield from self._ranges(at, width, buckets)
            else:  # the first row has been deleted
                at, width = at + width * BUCKETS, width * _GROWTH
            width = min(width, (integers.stop - integers.start) // BUCKETS)
            at = self._counts.first_key(From(at))

    def _ranges(self, at: int, width: int, buckets: list[Bucket]) -> Generator[Page, None, tuple[int, int]]:
        """Join buckets to pages. Returns where to go on and how wide the next ranges should be."""
        limit = self._page_rows()
        start, last, rows, total = at, at, 0, 0
        for bucket in buckets:
            first = at + bucket.number * width
            if rows and rows + bucket.rows > limit:
                yield Page(From(start), From(last + 1), rows)
                start, rows = first, 0
            if bucket.rows > limit and width > 1:
                return start, max(1, min(width // 2, width * limit // (2 * bucket.rows)))
            if bucket.rows > limit:
                yield from self._inside(first, bucket.rows)
                start = first + 1
            else:
                rows += bucket.rows
            last = bucket.last
            total += bucket.rows
        if rows:
            yield Page(From(start), From(last + 1), rows)
        return last + 1, max(1, min(width * _GROWTH, width * _PAGES_PER_COUNT * limit // total))

    def _inside(self, value: int, rows: int) -> Iterator[Page]:
        """Return the rows of one value of the first key, which are too many for a page."""
        if len(self._key.columns) == 1:  # nothing else distinguishes them
            return iter([Page(From(value), From(value + 1), rows)])
        return self._by_rows(From(value), From(value + 1))

    # ── a number of rows ────────────────────────────────────────────────────────────────────────────────────

    def _by_rows(self, start: Cut, end: Cut | None) -> Iterator[Page]:
        while True:
            limit = self._page_rows()
            ends = self._counts.page_ends(start, end, limit)
            pending = 0
            for number, key in enumerate(ends, 1):
                pending += limit
                if key not in ends[number : number + 1]:  # a key with more rows than a page is not divided
                    yield Page(start, After(key), pending)
                    start, pending = After(key), 0
            if len(ends) == ENDS:
                continue
            found = self._counts.last_row(start, end)
            if found is not None:
                key, rows = found
                yield Page(start, After(key) if end is None else end, rows)
            return
