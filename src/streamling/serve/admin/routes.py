"""The routes of an observed pipeline. A single run has them under `/admin`, a server with many under each pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from streamling.errors import StreamlingError
from streamling.observe.dead_letters import CAPACITY as LETTERS
from streamling.observe.epochs import CAPACITY as EPOCHS
from streamling.observe.rate_history import INTERVAL, LENGTH
from streamling.observe.telemetry.log_book import CAPACITY as LOG_RECORDS
from streamling.observe.telemetry.log_book import LogBook
from streamling.serve.admin.events import log_lines, topology_events
from streamling.serve.admin.guard import error_body
from streamling.serve.admin.live_data import live_data
from streamling.serve.admin.parameters import positive_number
from streamling.serve.admin.pipeline import ObservedPipeline

_MINUTES = LENGTH * INTERVAL / 60

#: starts a preview with the parameters of a request and returns its events
Preview = Callable[[Mapping[str, str]], Awaitable[AsyncIterator[str]]]


def reading_routes(pipeline: ObservedPipeline) -> list[Route]:
    """Return the routes that show what a pipeline does, relative to its base path."""

    async def topology(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(pipeline.topology))

    async def events(request: Request) -> Response:
        return _stream(topology_events(pipeline))

    async def epochs(request: Request) -> Response:
        return JSONResponse(pipeline.epochs(_number(request, "limit", EPOCHS, EPOCHS)))

    async def error(request: Request) -> Response:
        found = pipeline.error()
        return Response(status_code=204) if found is None else JSONResponse(found)

    async def dead_letters(request: Request) -> Response:
        node = request.query_params.get("node") or None
        return JSONResponse(pipeline.dead_letters(node, _number(request, "limit", LETTERS, LETTERS)))

    async def rows(request: Request) -> Response:
        return _stream(live_data(pipeline, request.query_params))

    return [
        Route("/topology", _answered(topology)),
        Route("/topology/events", _answered(events)),
        Route("/epochs", _answered(epochs)),
        Route("/error", _answered(error)),
        Route("/dead-letters", _answered(dead_letters)),
        Route("/live-data", _answered(rows)),
    ]


def history_route(history: Callable[[int, str | None], dict[str, Any]]) -> Route:
    """Return the route that shows rates and lag of the last minutes; ``history`` is given the number of buckets and a
    node."""

    async def show(request: Request) -> Response:
        minutes = positive_number(request.query_params.get("minutes"), "minutes", _MINUTES) or _MINUTES
        node = request.query_params.get("node") or None
        return JSONResponse(await run_in_threadpool(history, max(1, round(minutes * 60 / INTERVAL)), node))

    return Route("/history", _answered(show))


def pipeline_routes(pipeline: ObservedPipeline, logs: LogBook, name: str) -> list[Route]:
    """Return all routes of a pipeline, whose log is that of ``name``."""

    def command(action: str) -> Callable[[Request], Any]:
        async def run(request: Request) -> Response:
            await run_in_threadpool(getattr(pipeline, action))
            return JSONResponse({"accepted": action}, 202)

        return run

    async def log(request: Request) -> Response:
        tail = _number(request, "tail", 100, LOG_RECORDS)
        follow = request.query_params.get("follow", "").lower() in ("1", "true", "yes")
        lines = log_lines(logs, name, tail, lambda: follow and not pipeline.has_ended)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    return [
        *reading_routes(pipeline),
        history_route(pipeline.history),
        Route("/logs", _answered(log)),
        *(Route(f"/{each}", _answered(command(each)), methods=["POST"]) for each in ("pause", "resume", "checkpoint")),
    ]


def preview_route(preview: Preview) -> Route:
    """Return the route that starts a preview."""

    async def start(request: Request) -> Response:
        return _stream(await preview(request.query_params))

    return Route("/preview", _answered(start), methods=["POST"])


def _stream(events: Any) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit():
        raise StreamlingError.user(f"the parameter '{name}' is '{text}', which is not a number")
    return min(int(text), most)


def _answered(handle: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Return ``handle`` with errors as JSON."""

    async def answer(request: Request) -> Response:
        try:
            response: Response = await handle(request)
        except StreamlingError as error:
            status, code = (503, "unavailable") if error.internal else (400, "invalid")
            return JSONResponse(error_body(code, str(error), error.remedy), status)
        return response

    return answer
