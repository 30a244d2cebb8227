"""Concurrent requests of one node."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar, cast

from streamling.network.http.client import HttpClient

WorkT = TypeVar("WorkT")
ResponseT = TypeVar("ResponseT")


class _Job(Generic[ResponseT]):
    """Requests that were started together and complete together."""

    def __init__(self, count: int) -> None:
        self.responses: list[ResponseT | None] = [None] * count
        self.left = count
        self.done: Future[list[ResponseT]] = Future()


class Senders(Generic[WorkT, ResponseT]):
    """Up to ``most`` tasks on the client's thread that take work from a queue.

    One task and one future per request, each started from the node's thread, took twice the CPU time: every start and
    every end was a thread switch.
    """

    def __init__(self, client: HttpClient, most: int, do: Callable[[WorkT], Awaitable[ResponseT]]) -> None:
        self.most = most
        self._client = client
        self._do = do
        self._queue: deque[tuple[_Job[ResponseT], int, WorkT]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        #: tasks that will check the queue again
        self._working = 0
        self._is_scheduled = False

    def start(self, works: Sequence[WorkT]) -> Future[list[ResponseT]]:
        """Return a future that completes when all ``works`` are answered or one of them has failed."""
        job = _Job[ResponseT](len(works))
        self._queue.extend((job, number, work) for number, work in enumerate(works))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._client.soon(self._send)
        return job.done

    def close(self) -> None:
        """Cancel everything."""
        self._queue.clear()
        self._client.soon(self._cancel)

    # ── on the client's thread ───────────────────────────────────────────────────────────────────────────────

    def _send(self) -> None:
        self._is_scheduled = False
        for _ in range(min(len(self._queue), self.most - self._working)):
            self._working += 1
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while self._queue:
            job, number, work = self._queue.popleft()
            try:
                job.responses[number] = await self._do(work)
            except Exception as error:
                if not job.done.done():
                    job.done.set_exception(error)
            else:
                job.left -= 1
                if not job.left:
                    job.done.set_result(cast(list[ResponseT], job.responses))
        self._working -= 1

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
