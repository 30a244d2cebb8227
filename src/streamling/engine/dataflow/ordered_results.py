"""The results of a transform in the order of its batches, also if they depend on asynchronous calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from streamling.plugins.in_flight import InFlight
from streamling.plugins.transforms import AsyncCalls


class OrderedResults:
    """All methods are called on the operator's thread; ``wake`` is called on any thread when `ready` has results."""

    def __init__(
        self,
        process: Callable[[pa.RecordBatch], pa.RecordBatch | AsyncCalls[Any]],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._process = process
        self._wake = wake
        self._in_flight = InFlight()
        self._pending: deque[_Pending] = deque()

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Process ``batch``. Yields results that have become complete; blocks while too many calls are in flight."""
        made = self._process(batch)
        if isinstance(made, AsyncCalls):
            yield from self._begin(made)
        else:
            yield from self.drain()
            yield made

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Yield the complete results, up to the first batch that is not complete."""
        self._in_flight.check()
        while self._pending and self._pending[0].complete:
            yield self._pending.popleft().result()

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield all results; waits for the calls in flight."""
        while self._pending:
            yield from self._first()

    def _begin(self, calls: AsyncCalls[Any]) -> Iterator[pa.RecordBatch]:
        while len(self._pending) >= calls.max_in_flight:  # otherwise responses after a slow one would pile up
            yield from self._first()
        pending = _Pending(calls.result)
        self._pending.append(pending)
        for start in calls.starts:
            self._in_flight.wait_for_slot(calls.max_in_flight)
            call = start()
            pending.add(call)
            self._in_flight.add(call)
            call.add_done_callback(lambda done: self._answered(pending, done))
            yield from self.ready()
        pending.all_started = True
        yield from self.ready()

    def _first(self) -> Iterator[pa.RecordBatch]:
        """Yield the first batch, and the complete ones after it."""
        pending = self._pending[0]
        self._in_flight.wait_until(lambda: pending.complete)
        yield from self.ready()

    def _answered(self, pending: _Pending, call: Future[Any]) -> None:
        """Take a result, on the thread that received the response."""
        at_head = bool(self._pending) and self._pending[0] is pending
        if (at_head and pending.complete) or (not call.cancelled() and call.exception() is not None):
            self._wake()


class _Pending:
    """One batch whose calls are in flight."""

    def __init__(self, result: Callable[[Sequence[Any]], pa.RecordBatch]) -> None:
        self._result = result
        self._calls: list[Future[Any]] = []
        self._answered = 0
        self.all_started = False

    def add(self, call: Future[Any]) -> None:
        self._calls.append(call)

    @property
    def complete(self) -> bool:
        """Whether all responses have arrived. Called after each of them, so it continues where it stopped the last
        time; if another thread sets it back a little, that does no harm."""
        answered = self._answered
        while answered < len(self._calls) and self._calls[answered].done():
            answered += 1
        self._answered = answered
        return self.all_started and answered == len(self._calls)

    def result(self) -> pa.RecordBatch:
        return self._result([call.result() for call in self._calls])
