"""The memberships of all instances that read their topics alone, kept by one thread.

Such an instance is a member of its group only to detect a second one, so its membership may take its time. Members that
divide a topic have a thread each: a rebalance of one must not wait for another one that finishes its work.
"""

from __future__ import annotations

import contextvars
import heapq
import itertools
import threading
import time
from collections.abc import Callable


class LoneMembers:
    """Calls a function for each member, again and again. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        #: time of the next call, a number that breaks ties, the function and its context
        self._due: list[tuple[float, int, Callable[[], float | None], contextvars.Context]] = []
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="lone members", daemon=True)
        self._thread.start()

    def add(self, step: Callable[[], float | None], delay: float) -> None:
        """Call ``step`` after ``delay`` seconds, and again after as many seconds as it returns, until it returns None.
        It must not raise."""
        self._schedule(step, contextvars.copy_context(), delay)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _schedule(self, step: Callable[[], float | None], context: contextvars.Context, delay: float) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._numbers), step, context))
            self._changed.notify()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            step, context = due
            delay = context.run(step)
            if delay is not None:
                self._schedule(step, context, delay)

    def _next(self) -> tuple[Callable[[], float | None], contextvars.Context] | None:
        """Wait for the next call; None at the end."""
        with self._changed:
            while not self._is_closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    *_, step, context = heapq.heappop(self._due)
                    return step, context
                self._changed.wait(left)
            return None
