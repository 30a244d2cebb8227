"""Previews over HTTP: pipelines without their sinks, each in a process of its own, whose rows are passed on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self
from urllib.parse import urlencode

from streamling.errors import StreamlingError
from streamling.pipeline.model import Pipeline
from streamling.serve.admin.events import event
from streamling.serve.admin.guard import error_body
from streamling.serve.admin.parameters import positive_number
from streamling.serve.admin.remote import RemoteAdmin, RemoteResponse

_DEFAULT_SECONDS, MOST_SECONDS = 180.0, 600.0
MOST_ROWS: Final = 1000
#: without any rows
_FIRST_ROWS_SECONDS: Final = 30.0
_ENDED: Final[Mapping[str, Any]] = {"reason": "preview ended"}
_TIME_IS_UP: Final[Mapping[str, Any]] = {**_ENDED, "time_is_up": True}
_BLOCK_END: Final = re.compile(rb"\r?\n\r?\n")


@dataclass(frozen=True)
class PreviewLimits:
    """When a preview ends, unless its sources end before."""

    seconds: float
    #: rows of every node; None: rows are shown until the time is up
    rows: int | None

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        """The limits in the parameters of a request."""
        seconds = positive_number(parameters.get("duration_seconds"), "duration_seconds", MOST_SECONDS)
        rows = positive_number(parameters.get("rows"), "rows", MOST_ROWS)
        return cls(_DEFAULT_SECONDS if seconds is None else seconds, None if rows is None else max(1, int(rows)))


class PreviewProcess(Protocol):
    """The process of one preview."""

    async def admin(self) -> RemoteAdmin:
        """Its admin API, as soon as it serves one; raises if it has ended before."""

    async def stop(self) -> None:
        """End the process; it may have ended already."""


@dataclass(frozen=True)
class PreviewNode:
    """A node whose rows are shown."""

    name: str
    kind: str
    type: str


def shown_nodes(pipeline: Pipeline) -> list[PreviewNode]:
    """The nodes of ``pipeline`` that have rows."""
    return [
        PreviewNode(node.name, str(node.kind), node.type)
        for node in pipeline
        if node.kind.has_output and node.options.emits_rows
    ]


class Previews:
    """A limited number of previews; a new one replaces the one that its owner already has."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[str, PreviewProcess] = {}
        self._starting = asyncio.Lock()

    async def open(
        self,
        owner: str,
        start: Callable[[], Awaitable[PreviewProcess]],
        nodes: Sequence[PreviewNode],
        limits: PreviewLimits,
    ) -> AsyncIterator[str]:
        """Start a preview; returns its events, or raises if it cannot be started."""
        async with self._starting:
            if (former := self._running.pop(owner, None)) is not None:
                await former.stop()
            if len(self._running) >= self._most:
                raise StreamlingError(
                    f"{self._most} previews of other users are running, which is the limit",
                    retriable=True,
                    remedy="try again in a minute",
                )
            process = self._running[owner] = await start()
        try:
            admin = await process.admin()
        except BaseException:
            await self._end(owner, process)
            raise
        return self._events(owner, process, admin, nodes, limits)

    async def _end(self, owner: str, process: PreviewProcess) -> None:
        if self._running.get(owner) is process:
            del self._running[owner]
        await process.stop()

    async def _events(
        self,
        owner: str,
        process: PreviewProcess,
        admin: RemoteAdmin,
        nodes: Sequence[PreviewNode],
        limits: PreviewLimits,
    ) -> AsyncIterator[str]:
        ended = _ENDED
        try:
            yield event("nodes", [vars(node) for node in nodes])
            try:
                async with aclosing(_rows(admin, nodes, limits)) as rows:
                    async for text in rows:
                        yield text
                failure = await _failure(admin)
            except TimeoutError:
                failure, ended = None, _TIME_IS_UP
            except StreamlingError as error:
                failure = error_body("failed", str(error))
            if failure is not None:
                yield event("error", failure)
            yield event("end", ended)
        finally:
            await self._end(owner, process)


async def _rows(admin: RemoteAdmin, nodes: Sequence[PreviewNode], limits: PreviewLimits) -> AsyncGenerator[str, None]:
    """Rows as events, until the pipeline ends or there are enough. Raises `TimeoutError` when the time is up, which
    counts from the first rows."""
    deadline = asyncio.get_running_loop().time() + max(limits.seconds, _FIRST_ROWS_SECONDS)
    has_rows = False
    missing = {node.name: limits.rows or float("inf") for node in nodes}
    query = urlencode({"topology_node_keys": ",".join(missing), "order": "oldest_first"})
    async with admin.get(f"/live-data?{query}") as response:
        if response.status != 200:
            raise StreamlingError(await _text(response))
        blocks = _blocks(response)
        while any(count > 0 for count in missing.values()):
            try:
                async with asyncio.timeout_at(deadline):
                    block = await anext(blocks)
            except StopAsyncIteration:
                return
            if block.startswith("data: "):
                if not has_rows:
                    has_rows, deadline = True, asyncio.get_running_loop().time() + limits.seconds
                node = json.loads(block[6:])["topology_node_key"]
                missing[node] -= 1
                yield f"{block}\n\n"
            elif block.startswith("event: end"):
                return


async def _blocks(response: RemoteResponse) -> AsyncIterator[str]:
    """Server-sent events as text."""
    rest = b""
    async for part in response.body():
        *blocks, rest = _BLOCK_END.split(rest + part)
        for block in blocks:
            yield block.decode("utf-8", "replace")


async def _failure(admin: RemoteAdmin) -> dict[str, Any] | None:
    """Why the pipeline has failed, if it has."""
    async with admin.get("/error") as response:
        if response.status != 200:
            return None
        error = json.loads(await _text(response))
    return error_body("failed", error["message"], error["remedy"])


async def _text(response: RemoteResponse) -> str:
    return b"".join([part async for part in response.body()]).decode("utf-8", "replace")
