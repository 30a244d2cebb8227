"""Previews of definitions: each runs in a process of its own, like a pipeline with `isolation: process`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.concurrency import run_in_threadpool

from streamling.errors import StreamlingError
from streamling.serve.admin.previews import PreviewLimits, PreviewNode, Previews, shown_nodes
from streamling.serve.admin.remote import RemoteAdmin
from streamling.serve.applications import Applications
from streamling.serve.control import ControlPlane
from streamling.serve.model import PipelineKey
from streamling.serve.process_runtime import ProcessHandle, ProcessRuntime
from streamling.serve.runtime import Phase, PipelineSpec
from streamling.serve.schemas import DefinitionBody

#: at a time, of all clients: each has a JVM of its own
_MOST: Final = 2
#: from the start of the process until the pipeline runs
_START_SECONDS: Final = 120.0
#: a namespace that no pipeline can have
_KEY: Final = PipelineKey("(preview)", "pipeline")


@dataclass(frozen=True)
class CheckedPreview:
    """A definition without errors, and the nodes whose rows are shown."""

    spec: PipelineSpec
    nodes: list[PreviewNode]


class DefinitionPreviews:
    """A client has one preview at a time: a new one replaces it."""

    def __init__(self, control: ControlPlane, applications: Applications, processes: ProcessRuntime) -> None:
        self._control = control
        self._applications = applications
        self._processes = processes
        self._previews = Previews(_MOST)

    def check(self, body: DefinitionBody, limits: PreviewLimits) -> CheckedPreview:
        """What `open` needs; raises if the definition is invalid. May wait for sources."""
        spec = PipelineSpec(_KEY, body.definition, body.config, "s", preview_rows=limits.rows)
        self._control.check_spec(spec)
        return CheckedPreview(spec, shown_nodes(self._applications.pipeline(self._applications.of(spec), spec)))

    async def open(self, owner: str, checked: CheckedPreview, limits: PreviewLimits) -> AsyncIterator[str]:
        """The events of a preview; raises if it cannot be started."""
        start = partial(WorkerProcess.start, self._processes, checked.spec)
        return await self._previews.open(owner, start, checked.nodes, limits)


class WorkerProcess:
    """The `PreviewProcess` of a definition."""

    def __init__(self, handle: ProcessHandle, changed: asyncio.Event) -> None:
        self._handle = handle
        self._changed = changed

    @classmethod
    async def start(cls, processes: ProcessRuntime, spec: PipelineSpec) -> WorkerProcess:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def on_change() -> None:
            with suppress(RuntimeError):  # the server has stopped, and its loop with it
                loop.call_soon_threadsafe(changed.set)

        return cls(await run_in_threadpool(processes.load, spec, on_change), changed)

    async def admin(self) -> RemoteAdmin:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while True:
                    self._changed.clear()
                    report, admin = self._handle.report(), self._handle.admin
                    if report.phase is Phase.ENDED:
                        reason = report.error or "the preview was replaced by another one"
                        raise StreamlingError.user(reason, remedy=report.remedy or None)
                    if admin is not None:
                        return admin
                    await self._changed.wait()
        except TimeoutError:
            raise StreamlingError(f"the preview was not ready after {_START_SECONDS:g} s") from None

    async def stop(self) -> None:
        self._handle.discard()
