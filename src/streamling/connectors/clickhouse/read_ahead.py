"""The pages of a table after a position, planned and read by threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

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


# ── pages, ahead and in order ────────────────────────────────────────────────────────────────────────────────────

ResultT = TypeVar("ResultT")


@dataclass
class _Slot(Generic[ResultT]):
    """A page that is being read."""

    page: Page | None
    done: threading.Event = field(default_factory=threading.Event)
    result: ResultT | None = None
    error: BaseException | None = None


@dataclass(frozen=True)
class Fetched(Generic[ResultT]):
    """A page and what was read for it."""

    page: Page
    result: ResultT


class PageFeed(Generic[ResultT]):
    """Pages of ``pages``, read with one function per thread. At most ``ahead`` pages are held or being read.

    ``pages`` is asked by one thread at a time. A failure is raised when the page it belongs to is due.
    """

    def __init__(self, pages: Iterator[Page], fetch: Sequence[Callable[[Page], ResultT]], ahead: int) -> None:
        self._pages = pages
        self._planning = threading.Lock()
        self._room = threading.Semaphore(ahead)
        self._closed = threading.Event()
        self._slots: deque[_Slot[ResultT]] = deque()
        self._filled = threading.Condition()
        self._exhausted = False
        self._threads = [
            threading.Thread(target=self._run, args=(one,), name=f"clickhouse page reader {number}", daemon=True)
            for number, one in enumerate(fetch)
        ]
        for thread in self._threads:
            thread.start()

    def next(self, timeout: float) -> Fetched[ResultT] | None:
        """Return the next page; None if it has not arrived within ``timeout`` seconds, or if there are no more: see
        `has_ended`."""
        with self._filled:
            self._filled.wait_for(lambda: self._slots or self._exhausted, timeout)
            slot = self._slots[0] if self._slots else None
        if slot is None or not slot.done.wait(timeout):
            return None
        if slot.error is not None:
            raise slot.error
        with self._filled:
            self._slots.popleft()
        self._room.release()
        assert slot.page is not None
        return Fetched(slot.page, slot.result)  # type: ignore[arg-type]

    @property
    def has_ended(self) -> bool:
        """Whether all pages have been handed out."""
        with self._filled:
            return self._exhausted and not self._slots

    def close(self) -> None:
        """End all threads. The functions that read must return or raise soon."""
        self._closed.set()
        for _ in self._threads:
            self._room.release()
        for thread in self._threads:
            thread.join()

    # ── in the threads ──────────────────────────────────────────────────────────────────────────────────────

    def _run(self, fetch: Callable[[Page], ResultT]) -> None:
        while True:
            self._room.acquire()
            slot = None if self._closed.is_set() else self._take()
            if slot is None:
                return
            if slot.page is not None:
                try:
                    slot.result = fetch(slot.page)
                except BaseException as error:
                    slot.error = error
            slot.done.set()

    def _take(self) -> _Slot[ResultT] | None:
        """Return the next page, which gets its place in the order; None if there is none."""
        with self._planning:
            if self._exhausted or self._closed.is_set():
                return None
            try:
                slot = _Slot[ResultT](next(self._pages))
            except StopIteration:
                slot = None
            except BaseException as error:
                slot = _Slot[ResultT](None, error=error)
            with self._filled:
                if slot is not None:
                    self._slots.append(slot)
                self._exhausted = slot is None or slot.page is None
                self._filled.notify_all()
            return slot
