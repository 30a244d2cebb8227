"""Calls to the outside that are under way at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class InFlight:
    """Keeps count of calls. What a call failed with is raised by the next method that the operator's thread calls."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._count = 0
        self._failure: BaseException | None = None
        #: what the operator's thread waits for; it is woken for nothing else, since each time costs a switch of threads
        self._awaited: Callable[[], bool] | None = None

    def add(self, call: Future[Any]) -> None:
        with self._changed:
            self._count += 1
        call.add_done_callback(self._done)

    def check(self) -> None:
        """Raise what the first failed call raised."""
        if self._failure is not None:
            raise self._failure

    def wait_for_slot(self, most: int) -> None:
        """Return when fewer than ``most`` calls are under way. When there are as many, wait for a quarter of them to
        end, so that the next few can be started in one go."""
        if self._count >= most:
            low = most - max(1, most // 4)
            self.wait_until(lambda: self._count <= low)
        self.check()

    def wait(self) -> None:
        """Until no call is under way."""
        self.wait_until(lambda: self._count == 0)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Until ``condition`` holds, which is looked at after each call that ended."""
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
