"""Previews over HTTP: pipelines without their sinks, whose rows are passed on.

Each runs in a process of its own, as a pipeline with `isolation: process` does.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, Self
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.secrets.store import SecretStore
from streamling.serve.access import Principal
from streamling.serve.admin.events import event
from streamling.serve.admin.guard import error_body
from streamling.serve.admin.parameters import positive_number
from streamling.serve.admin.remote import RemoteAdmin, RemoteResponse
from streamling.serve.control import ControlPlane
from streamling.serve.launchers import Launchers
from streamling.serve.model import PipelineBody, PipelineKey, PipelineRecord
from streamling.serve.process_runtime import ProcessHandle, ProcessRuntime
from streamling.serve.runtime import Phase, Preview
from streamling.serve.schemas import DefinitionBody
from streamling.serve.sizes import LARGEST

#: at a time on a server, of all clients: each has a JVM of its own
_MOST: Final = 2
#: after which a preview ends if somebody else waits for one: otherwise two clients could keep all others from it
_GRANTED_SECONDS: Final = 60.0
#: from the start of the process until the pipeline runs
_START_SECONDS: Final = 120.0
#: a namespace that no pipeline can have
_KEY: Final = PipelineKey("(preview)", "pipeline")
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
        """Return the limits in the parameters of a request."""
        seconds = positive_number(parameters.get("duration_seconds"), "duration_seconds", MOST_SECONDS)
        rows = positive_number(parameters.get("rows"), "rows", MOST_ROWS)
        return cls(_DEFAULT_SECONDS if seconds is None else seconds, None if rows is None else max(1, int(rows)))


@dataclass(frozen=True)
class PreviewNode:
    """A node whose rows are shown."""

    name: str
    kind: str
    type: str


class PreviewProcess(Protocol):
    """The process of one preview."""

    async def admin(self) -> RemoteAdmin:
        """Return its admin API, as soon as it serves one; raises if it has ended before."""

    async def stop(self) -> None:
        """End the process; it may have ended already."""


@dataclass(frozen=True)
class CheckedPreview:
    """A definition without errors, the nodes whose rows are shown, and the Spark packages that it needs."""

    record: PipelineRecord
    nodes: list[PreviewNode]
    spark_packages: frozenset[str]

    @classmethod
    def of(cls, launchers: Launchers, record: PipelineRecord, limits: PreviewLimits) -> Self:
        launcher = launchers.of(record, Preview(limits.rows))
        pipeline = launcher.parse(record.definition, record.file)
        nodes = [
            PreviewNode(node.name, str(node.kind), node.type)
            for node in pipeline
            if node.kind.has_output and node.options.emits_rows
        ]
        return cls(record, nodes, launcher.run(pipeline).node_declarations.spark_packages)


class DefinitionPreviews:
    """Previews of definitions from the API of a server. A client has one at a time: a new one replaces it. So do the
    clients of one namespace."""

    def __init__(self, control: ControlPlane, launchers: Launchers, processes: ProcessRuntime) -> None:
        self._control = control
        self._launchers = launchers
        self._processes = processes
        self._previews = Previews(_MOST)

    def check(self, body: DefinitionBody, limits: PreviewLimits) -> CheckedPreview:
        """Return what `open` needs; raises if the definition is invalid. May wait for sources."""
        wanted = PipelineBody(definition=body.definition, config=body.config, size="s")
        self._control.check(_KEY, wanted.model_copy(update={"size": LARGEST}), Preview(limits.rows))
        record = PipelineRecord.first(_KEY, wanted, datetime.now(UTC))
        return CheckedPreview.of(self._launchers, record, limits)

    async def open(self, principal: Principal, checked: CheckedPreview, limits: PreviewLimits) -> AsyncIterator[str]:
        """Return the events of a preview; raises if it cannot be started."""
        start = partial(PreviewWorker.start, self._processes, checked, limits)
        owner = PreviewOwner(principal.name, frozenset() if principal.sees_all else frozenset(principal.namespaces))
        return await self._previews.open(owner, start, checked.nodes, limits)


class FilePreviews:
    """Previews of pipeline files with one configuration, for the preview server and the console of a run. There is one
    at a time: a new one replaces it."""

    def __init__(self, config: AppConfig, config_name: str | None) -> None:
        store = SecretStore.of(config, os.environ)
        self._launchers = Launchers(config, config_name or "config", Path.cwd(), os.environ, store)
        self._processes = ProcessRuntime(self._launchers)
        self._previews = Previews(most=1)

    async def open(self, text: str, parameters: Mapping[str, str]) -> AsyncIterator[str]:
        """Return the events of a preview of ``text``; raises if it is invalid or cannot be started."""
        limits = PreviewLimits.of(parameters)
        record = PipelineRecord.first(_KEY, PipelineBody(definition=text), datetime.now(UTC), "dir")
        checked = await run_in_threadpool(CheckedPreview.of, self._launchers, record, limits)
        start = partial(PreviewWorker.start, self._processes, checked, limits)
        return await self._previews.open(PreviewOwner(""), start, checked.nodes, limits)

    async def open_file(self, file: str, parameters: Mapping[str, str]) -> AsyncIterator[str]:
        """Return the events of a preview of ``file`` as it is now."""
        try:
            text = await run_in_threadpool(Path(file).read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StreamlingError.user(f"the pipeline file {file} cannot be read: {error}") from None
        return await self.open(text, parameters)


@dataclass(frozen=True)
class PreviewOwner:
    """Who starts a preview. Owners that share one of the ``namespaces`` have one preview at a time."""

    name: str
    namespaces: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Running:
    owner: PreviewOwner
    process: PreviewProcess
    since: float


class Previews:
    """A limited number of previews; a new one replaces the one that its owner already has, and those of others that
    have run for a minute."""

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._now = now
        self._running: list[_Running] = []
        self._starting = asyncio.Lock()

    async def open(
        self,
        owner: PreviewOwner,
        start: Callable[[], Awaitable[PreviewProcess]],
        nodes: Sequence[PreviewNode],
        limits: PreviewLimits,
    ) -> AsyncIterator[str]:
        """Start a preview; returns its events, or raises if it cannot be started."""
        async with self._starting:
            for former in [each for each in self._running if each.owner.name == owner.name]:
                await self._end(former)
            await self._make_room(owner)
            running = _Running(owner, await start(), self._now())
            self._running.append(running)
        try:
            admin = await running.process.admin()
        except BaseException:
            await self._end(running)
            raise
        return self._events(running, admin, nodes, limits)

    async def _make_room(self, owner: PreviewOwner) -> None:
        same = [each for each in self._running if each.owner.namespaces & owner.namespaces]
        if not same and len(self._running) < self._most:
            return
        oldest = (same or self._running)[0]
        left = oldest.since + _GRANTED_SECONDS - self._now()
        if left > 0:
            whose = f"a preview of '{oldest.owner.name}' is" if same else f"{self._most} previews of other users are"
            where = " for its namespaces" if same else ""
            raise StreamlingError(
                f"{whose} running, which is the limit{where}",
                retriable=True,
                remedy=f"try again in {math.ceil(left)} s",
            )
        await self._end(oldest)

    async def _end(self, preview: _Running) -> None:
        if preview in self._running:
            self._running.remove(preview)
        await preview.process.stop()

    async def _events(
        self,
        preview: _Running,
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
            if preview not in self._running:
                failure = error_body("replaced", "the preview was ended because another one was started")
            if failure is not None:
                yield event("error", failure)
            yield event("end", ended)
        finally:
            await self._end(preview)


class PreviewWorker:
    """The `PreviewProcess` of a pipeline: one that runs a pipeline in a process of its own, as `isolation: process`
    does."""

    def __init__(self, handle: ProcessHandle, changed: asyncio.Event, *, is_internal: bool) -> None:
        """``is_internal``: whoever starts the preview has not written the definition."""
        self._handle = handle
        self._changed = changed
        self._is_internal = is_internal

    @classmethod
    async def start(cls, processes: ProcessRuntime, checked: CheckedPreview, limits: PreviewLimits) -> PreviewWorker:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def on_change() -> None:
            with suppress(RuntimeError):  # the server has stopped, and its loop with it
                loop.call_soon_threadsafe(changed.set)

        preview = Preview(limits.rows, tuple(checked.spark_packages))
        handle = await run_in_threadpool(processes.load, checked.record, on_change, preview)
        return cls(handle, changed, is_internal=checked.record.is_trusted)

    async def admin(self) -> RemoteAdmin:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while True:
                    self._changed.clear()
                    report, admin = self._handle.report(), self._handle.admin
                    if report.phase is Phase.ENDED:
                        reason = report.error or "the preview was replaced by another one"
                        raise StreamlingError(reason, internal=self._is_internal, remedy=report.remedy or None)
                    if admin is not None:
                        return admin
                    await self._changed.wait()
        except TimeoutError:
            raise StreamlingError(f"the preview was not ready after {_START_SECONDS:g} s") from None

    async def stop(self) -> None:
        self._handle.discard()


async def _rows(admin: RemoteAdmin, nodes: Sequence[PreviewNode], limits: PreviewLimits) -> AsyncGenerator[str, None]:
    """Yield the rows as events, until the pipeline ends or there are enough. Raises `TimeoutError` when the time is up,
    which counts from the first rows."""
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
    """Yield server-sent events as text."""
    rest = b""
    async for part in response.body():
        *blocks, rest = _BLOCK_END.split(rest + part)
        for block in blocks:
            yield block.decode("utf-8", "replace")


async def _failure(admin: RemoteAdmin) -> dict[str, Any] | None:
    """Return why the pipeline has failed, if it has."""
    async with admin.get("/error") as response:
        if response.status != 200:
            return None
        error = json.loads(await _text(response))
    return error_body("failed", error["message"], error["remedy"])


async def _text(response: RemoteResponse) -> str:
    return b"".join([part async for part in response.body()]).decode("utf-8", "replace")
