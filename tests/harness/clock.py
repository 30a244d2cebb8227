"""A clock that tests advance."""

from __future__ import annotations

import threading
from collections.abc import Callable


class SimulatedClock:
    """Stands still until `advance` is called; waiting threads wake up when their timeout has passed."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._waiting: list[threading.Condition] = []

    def now(self) -> float:
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass. Must not be called while holding a condition that is being waited on."""
        with self._lock:
            self._now += seconds
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()

    @property
    def waiting_threads(self) -> int:
        with self._lock:
            return len(self._waiting)

    def wait_for(self, condition: threading.Condition, predicate: Callable[[], bool], timeout: float | None) -> bool:
        # registered before the time is read: any later `advance` notifies this thread
        with self._lock:
            self._waiting.append(condition)
            deadline = None if timeout is None else self._now + timeout
        try:
            while not predicate() and (deadline is None or self.now() < deadline):
                condition.wait()
            return predicate()
        finally:
            with self._lock:
                self._waiting.remove(condition)
