"""The pages of a table after a position, planned and read by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streamling.connectors.clickhouse.page_feed import Fetched, PageFeed
from streamling.connectors.clickhouse.page_reader import PageReader, TableAccess
from streamling.connectors.clickhouse.page_size import PageSize
from streamling.connectors.clickhouse.pages import Page, PagePlan
from streamling.connectors.clickhouse.sort_key import BEGINNING, Cut
from streamling.retry import Stopping, call_with_retries

if TYPE_CHECKING:
    from streamling.plugins.context import NodeContext

T = TypeVar("T")

#: connections that read pages, and pages that are held in memory
_CONNECTIONS: Final = 3
_PAGES_AHEAD: Final = 4
#: pages that are planned ahead if executors read them
_PLANNED_AHEAD: Final = 32
#: seconds between two checks whether to stop waiting
_CHECK_SECONDS: Final = 0.2


class ReadAhead:
    """Pages after ``start``, in order, each with an Arrow table; without one if ``plans_only``."""

    def __init__(
        self,
        access: TableAccess,
        size: PageSize,
        first_range: int,
        context: NodeContext[Any],
        start: Cut,
        *,
        plans_only: bool,
    ) -> None:
        self._access = access
        self._size = size
        self._context = context
        self._interrupt = _Interrupt(context.stopping)
        self._readers: list[PageReader] = []
        #: rows in front of ``start``, and in the table
        self.skipped_rows = 0
        self.total_rows: int | None = None
        pages = self._plan(self._connect(), start, first_range)
        if plans_only:
            self._feed: PageFeed[Any] = PageFeed(pages, [lambda page: None], _PLANNED_AHEAD)
        else:
            self._feed = PageFeed(pages, [self._connect().fetch for _ in range(_CONNECTIONS)], _PAGES_AHEAD)

    def next(self, timeout: float) -> Fetched[Any] | None:
        """Return the next page; None if it has not arrived in time, or if there are no more. Raises `QueryTooLarge` if
        it should be divided: start again with smaller pages."""
        return self._feed.next(timeout)

    @property
    def has_ended(self) -> bool:
        return self._feed.has_ended

    def close(self) -> None:
        """End requests and threads."""
        self._interrupt.set()
        for reader in self._readers:
            reader.cancel()
        self._feed.close()
        for reader in self._readers:
            reader.close()

    # ── in the threads ──────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, planner: PageReader, start: Cut, first_range: int) -> Iterator[Page]:
        total = planner.count(BEGINNING)
        self.skipped_rows = 0 if start is BEGINNING else total - planner.count(start)
        self.total_rows = total
        yield from PagePlan(self._access.statements.table.key, planner, self._size.rows, first_range).pages(start)

    def _connect(self) -> PageReader:
        reader = PageReader(self._access, self._size, self._retry)
        self._readers.append(reader)
        return reader

    def _retry(self, work: Callable[[], T]) -> T:
        """Retry without a limit, also for new connections: the server has responded before."""
        return call_with_retries(
            work, stopping=self._interrupt, log=self._context.log, report=self._context.report_retry
        )


class _Interrupt:
    """Ends pauses between attempts when the pipeline stops, or when the pages are no longer needed."""

    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping
        self._closed = threading.Event()

    def set(self) -> None:
        self._closed.set()

    def is_set(self) -> bool:
        return self._closed.is_set() or self._stopping.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        end = time.monotonic() + (timeout or 0)
        while not self.is_set() and (left := end - time.monotonic()) > 0:
            self._closed.wait(min(left, _CHECK_SECONDS))
        return self.is_set()
