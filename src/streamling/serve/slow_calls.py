"""Requests that wait for a pipeline, a source or the database: all except those that read what the server knows."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from streamling.serve.access import Principal
from streamling.serve.api_errors import ApiError
from streamling.threads import ContextThread

T = TypeVar("T")

#: seconds after which a client that was refused may try again
_RETRY_AFTER = 5


class SlowCalls:
    """Runs each call on a thread of its own, and a limited number of calls for each token. No other request needs these
    threads, and they do not keep the process from exiting."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    async def run(self, principal: Principal, call: Callable[[], T]) -> T:
        """Return the result of ``call``; refused if too many of ``principal`` are running."""
        self._begin(principal.name)
        result: Future[T] = Future()
        result.set_running_or_notify_cancel()

        def work() -> None:
            try:
                with self._ending(principal.name):
                    value = call()
            except BaseException as error:
                result.set_exception(error)
            else:
                result.set_result(value)

        ContextThread(work, f"slow request of {principal.name}").start()
        return await asyncio.wrap_future(result)

    def _begin(self, name: str) -> None:
        with self._lock:
            if self._running[name] < self._limit:
                self._running[name] += 1
                return
        raise ApiError(
            429,
            "too_many_slow_requests",
            f"'{name}' has {self._limit} requests that wait for pipelines, sources or the database, which is the limit",
            "wait until a checkpoint, a validation, a preview or a change has ended, or raise "
            "serve.concurrent_slow_requests",
            retry_after=_RETRY_AFTER,
        )

    @contextmanager
    def _ending(self, name: str) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._running[name] -= 1
