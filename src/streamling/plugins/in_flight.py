"""Concurrent calls to other systems."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class InFlight:
    """Counts the calls in flight. The error of a failed call is raised by the next method that the operator calls."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._count = 0
        self._failure: BaseException | None = None
        #: what the operator's thread waits for; it is woken for nothing else, since each wake-up is a thread switch
        self._awaited: Callable[[], bool] | None = None

    def add(self, call: Future[Any]) -> None:
        with self._changed:
            self._count += 1
        call.add_done_callback(self._done)

    def check(self) -> None:
        """Raise the error of the first failed call."""
        if self._failure is not None:
            raise self._failure

    def wait_for_slot(self, most: int) -> None:
        """Return when fewer than ``most`` calls are in flight. If there are as many, wait until a quarter of them have
        ended, so that several can be started at once."""
        if self._count >= most:
            low = most - max(1, most // 4)
            self.wait_until(lambda: self._count <= low)
        self.check()

    def wait(self) -> None:
        """Wait until no call is in flight."""
        self.wait_until(lambda: self._count == 0)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition`` holds, which is checked whenever a call has ended."""
        with self._changed:
            self._awaited = condition
            self._changed.wait_for(self._is_over)
            self._awaited = None
        self.check()

    def _is_over(self) -> bool:
        return self._failure is not None or self._awaited is None or self._awaited()

    def _done(self, call: Future[Any]) -> None:
        failure = None if call.cancelled() else call.exception()
        with self._changed:
            self._count -= 1
            if self._failure is None:
                self._failure = failure
            if self._awaited is not None and self._is_over():
                self._changed.notify_all()
