"""The preview server: runs pipelines that it receives, without their sinks, each in a process of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from streamling.admin.client import AdminClient
from streamling.admin.events import event
from streamling.admin.guard import Guard
from streamling.admin.registry import running_pipelines
from streamling.admin.server import create_server, listen
from streamling.config import AppConfig
from streamling.errors import StreamlingError
from streamling.output.redaction import redact
from streamling.pipeline.preview import without_sinks
from streamling.runtime.app import App

log = logging.getLogger(__name__)

_DEFAULT_SECONDS, _MOST_SECONDS = 180.0, 600.0
_MOST_BYTES: Final = 1024 * 1024
#: from the start of the process until it serves its admin API
_START_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 10.0
_ENDED: Final = {"reason": "preview ended"}


def serve_previews(config: AppConfig, config_name: str | None) -> None:
    """Answer requests until a signal arrives."""
    try:
        listening = listen(config)
    except OSError as error:
        address = f"{config.admin_api_host}:{config.admin_api_port}"
        raise StreamlingError(f"the preview server cannot listen on {address}: {error.strerror}") from None
    with listening:
        previews = Previews(config, config_name)
        token = config.admin_api_token
        application = Guard(
            Starlette(routes=[Route("/preview", previews.answer, methods=["POST"]), Route("/healthz", _healthy)]),
            token=None if token is None else token.get_secret_value(),
        )
        host, port = listening.getsockname()[:2]
        log.info("preview server: http://%s:%d/preview", host, port)
        create_server(application).run(sockets=[listening])


async def _healthy(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


class Previews:
    """At most one preview at a time: a new one replaces the one that runs."""

    def __init__(self, config: AppConfig, config_name: str | None) -> None:
        self._config = config
        self._options = [] if config_name is None else ["--config", config_name]
        token = config.admin_api_token
        self._token = None if token is None else token.get_secret_value()
        self._running: asyncio.subprocess.Process | None = None

    async def answer(self, request: Request) -> Response:
        """Check the pipeline, start it, and stream its rows."""
        try:
            seconds = _seconds(request.query_params.get("duration_seconds"))
            text = await _body(request)
            nodes = await run_in_threadpool(self._nodes, text)
        except StreamlingError as error:
            return PlainTextResponse(redact(_with_remedy(error)), 422)
        await self._stop_running()
        folder = tempfile.TemporaryDirectory(prefix="streamling-preview-")
        try:
            file = Path(folder.name) / "pipeline.yaml"
            file.write_text(without_sinks(text, App.of(self._config).registry), encoding="utf-8")
            process = self._running = await self._start(file)
        except OSError as error:
            folder.cleanup()
            return PlainTextResponse(f"the preview cannot be started: {error.strerror}", 500)
        url = await self._url(process)
        if url is None:
            await _stop(process)
            folder.cleanup()
            return PlainTextResponse("the preview could not be started: its process has ended", 502)
        events = self._events(process, f"{url}/admin", nodes, seconds, folder)
        return StreamingResponse(events, media_type="text/event-stream")

    def _nodes(self, text: str) -> list[str]:
        """The nodes whose rows are shown; raises if the pipeline is invalid."""
        app = App.of(self._config)
        app.plugins.load_named(text)
        pipeline = app.parse(without_sinks(text, app.registry), "pipeline.yaml")
        return [node.name for node in pipeline if node.kind.has_output and node.options.emits_rows]

    async def _start(self, file: Path) -> asyncio.subprocess.Process:
        """The pipeline in a process of its own: it keeps no state, and stays after a failure."""
        variables = {
            "STREAMLING__LIVE_DATA_INSPECT_ENABLED": "true",
            "STREAMLING__PREVIEW_TOLERANT_MODE": "true",
            "STREAMLING__ADMIN_API_HOST": "127.0.0.1",
            "STREAMLING__ADMIN_API_PORT": "0",
        }
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "streamling", "run", str(file), "--read-only", *self._options),
            env={**os.environ, **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
        )

    async def _url(self, process: asyncio.subprocess.Process) -> str | None:
        """The admin API of the process; None if it has ended before."""
        deadline = time.monotonic() + _START_SECONDS
        while process.returncode is None and time.monotonic() < deadline:
            runs = await run_in_threadpool(running_pipelines, self._config.cache_dir)
            found = next((run.url for run in runs if run.pid == process.pid), None)
            if found is not None:
                return found
            await asyncio.sleep(_POLL_SECONDS)
        return None

    async def _events(
        self,
        process: asyncio.subprocess.Process,
        base: str,
        nodes: list[str],
        seconds: float,
        folder: tempfile.TemporaryDirectory[str],
    ) -> AsyncIterator[str]:
        deadline = time.monotonic() + seconds
        try:
            query = urlencode({"topology_node_keys": ",".join(nodes)})
            rows = iterate_in_threadpool(AdminClient(base, self._token).events(f"/live-data?{query}"))
            with suppress(TimeoutError, StreamlingError, StopAsyncIteration):
                while True:
                    left = deadline - time.monotonic()
                    row = await asyncio.wait_for(anext(rows), max(0.0, left))
                    yield f"data: {row.data}\n\n"
            yield event("end", _ENDED)
        finally:
            await _stop(process)
            folder.cleanup()

    async def _stop_running(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await _stop(running)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _body(request: Request) -> str:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise StreamlingError.user(f"the pipeline is larger than {_MOST_BYTES // 1024} KiB")
    return body.decode("utf-8", "replace")


def _seconds(text: str | None) -> float:
    try:
        seconds = _DEFAULT_SECONDS if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise StreamlingError.user(f"duration_seconds is '{text}', which is not between 0 and {_MOST_SECONDS:g}")
    return seconds


def _with_remedy(error: Any) -> str:
    return f"{error} ({error.remedy})" if error.remedy else str(error)
