"""A clock that tests advance."""

from __future__ import annotations

import threading
from collections.abc import Callable


class SimulatedClock:
    """Stands still until `advance` is called. Then threads whose timeout has passed wake up, and calls whose time has
    come are made."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._waiting: list[threading.Condition] = []
        self._calls: dict[object, tuple[float, Callable[[], None]]] = {}

    def now(self) -> float:
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass. Must not be called while holding a condition that is being waited on."""
        with self._lock:
            self._now += seconds
            waiting = list(self._waiting)
            due = [call for call, (at, _) in self._calls.items() if at <= self._now]
            actions = [self._calls.pop(call)[1] for call in due]
        for condition in waiting:
            with condition:
                condition.notify_all()
        for action in actions:
            action()

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

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        call = object()
        with self._lock:
            self._calls[call] = self._now + seconds, action
        return lambda: self._cancel(call)

    def _cancel(self, call: object) -> None:
        with self._lock:
            self._calls.pop(call, None)
