"""Reads pages ahead in threads and hands them out in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streamling.connectors.clickhouse.pages import Page

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
