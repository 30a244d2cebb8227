"""Time as an argument, so that tests can advance it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock and a way to wait on it."""

    def now(self) -> float:
        """Return the seconds since some fixed moment."""

    def wait_for(self, condition: threading.Condition, predicate: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until ``predicate`` holds or ``timeout`` seconds (None: no limit) have passed; returns its last value.
        The caller holds ``condition``; the thread that makes the predicate true notifies it."""


class RealClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    def wait_for(self, condition: threading.Condition, predicate: Callable[[], bool], timeout: float | None) -> bool:
        return condition.wait_for(predicate, timeout)
