"""Time as an argument, so that tests can advance it."""

from __future__ import annotations

import heapq
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock and ways to wait on it."""

    def now(self) -> float:
        """Return the seconds since some fixed moment."""

    def wait_for(self, condition: threading.Condition, predicate: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until ``predicate`` holds or ``timeout`` seconds (None: no limit) have passed; returns its last value.
        The caller holds ``condition``; the thread that makes the predicate true notifies it."""

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        """Call ``action``, which must not block, after ``seconds`` on another thread. Returns what cancels the call."""


class RealClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    def wait_for(self, condition: threading.Condition, predicate: Callable[[], bool], timeout: float | None) -> bool:
        return condition.wait_for(predicate, timeout)

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        return _TIMER.call_later(seconds, action)


@dataclass(order=True)
class _Call:
    at: float
    action: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.action = None


class _Timer:
    """Calls actions at their time, on one thread for the whole process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: list[_Call] = []
        self._has_thread = False

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        call = _Call(time.monotonic() + seconds, action)
        with self._changed:
            heapq.heappush(self._calls, call)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="timer", daemon=True).start()
            elif self._calls[0] is call:
                self._changed.notify()
        return call.cancel

    def _run(self) -> None:
        while True:
            with self._changed:
                action = self._wait()
            if action is None:
                continue
            try:
                action()
            except Exception:  # a defect; other calls must not be lost because of it
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

    def _wait(self) -> Callable[[], None] | None:
        """Wait for the time of the next call; return its action, None if it was cancelled."""
        while not self._calls or (self._calls[0].action is not None and self._calls[0].at > time.monotonic()):
            self._changed.wait(self._calls[0].at - time.monotonic() if self._calls else None)
        return heapq.heappop(self._calls).action


_TIMER = _Timer()
