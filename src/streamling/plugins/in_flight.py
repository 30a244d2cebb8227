"""Calls to the outside that are under way at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class InFlight:
    """Keeps count of calls. What a call failed with is raised by the next method that the operator's thread calls."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: set[Future[Any]] = set()
        self._failure: BaseException | None = None

    def add(self, call: Future[Any]) -> None:
        with self._changed:
            self._running.add(call)
        call.add_done_callback(self._done)

    def check(self) -> None:
        """Raise what the first failed call raised."""
        if self._failure is not None:
            raise self._failure

    def wait(self, *, fewer_than: int = 1) -> None:
        """Until that few calls are under way; by default none."""
        self.wait_until(lambda: len(self._running) < fewer_than)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Until ``condition`` holds, which is looked at after each call that ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or condition())
        self.check()

    def cancel(self) -> None:
        """Give up all calls."""
        with self._changed:
            running = list(self._running)
        for call in running:
            call.cancel()

    def _done(self, call: Future[Any]) -> None:
        failure = None if call.cancelled() else call.exception()
        with self._changed:
            self._running.discard(call)
            if self._failure is None:
                self._failure = failure
            self._changed.notify_all()
