"""The routes of an observed pipeline. A single run has them under `/admin`, a server with many under each pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from streamling.admin.events import log_lines, topology_events
from streamling.admin.live_data import live_data
from streamling.admin.pipeline import ObservedPipeline
from streamling.errors import StreamlingError
from streamling.observe.dead_letters import CAPACITY as LETTERS
from streamling.observe.epochs import CAPACITY as EPOCHS
from streamling.telemetry.log_book import CAPACITY as LOG_RECORDS
from streamling.telemetry.log_book import LogBook

#: finds the pipeline that a request is about; raises `StreamlingError.user` if there is none
Find = Callable[[Request], ObservedPipeline]


def pipeline_routes(find: Find, logs: Callable[[Request], tuple[LogBook, str]] | None = None) -> list[Route]:
    """All routes of a pipeline, relative to its base path. ``logs`` gives the log book and the pipeline's name in it;
    without it there is no route for logs."""

    async def topology(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(find(request).topology))

    async def events(request: Request) -> Response:
        return _stream(topology_events(find(request)))

    async def epochs(request: Request) -> Response:
        return JSONResponse(find(request).epochs(_number(request, "limit", EPOCHS, EPOCHS)))

    async def error(request: Request) -> Response:
        found = find(request).error()
        return Response(status_code=204) if found is None else JSONResponse(found)

    async def dead_letters(request: Request) -> Response:
        node = request.query_params.get("node") or None
        return JSONResponse(find(request).dead_letters(node, _number(request, "limit", LETTERS, LETTERS)))

    async def rows(request: Request) -> Response:
        return _stream(live_data(find(request), request.query_params))

    def command(name: str) -> Callable[[Request], Any]:
        async def run(request: Request) -> Response:
            await run_in_threadpool(getattr(find(request), name))
            return JSONResponse({"accepted": name}, 202)

        return run

    routes = [
        Route("/topology", _answered(topology)),
        Route("/topology/events", _answered(events)),
        Route("/epochs", _answered(epochs)),
        Route("/error", _answered(error)),
        Route("/dead-letters", _answered(dead_letters)),
        Route("/live-data", _answered(rows)),
        *(Route(f"/{name}", _answered(command(name)), methods=["POST"]) for name in ("pause", "resume", "checkpoint")),
    ]
    if logs is None:
        return routes

    async def log(request: Request) -> Response:
        pipeline, (book, name) = find(request), logs(request)
        tail = _number(request, "tail", 100, LOG_RECORDS)
        follow = request.query_params.get("follow", "").lower() in ("1", "true", "yes")
        lines = log_lines(book, name, tail, lambda: follow and not pipeline.has_ended)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    return [*routes, Route("/logs", _answered(log))]


def _stream(events: Any) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit():
        raise StreamlingError.user(f"the parameter '{name}' is '{text}', which is not a number")
    return min(int(text), most)


def _answered(handle: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """``handle`` with errors as JSON."""

    async def answer(request: Request) -> Response:
        try:
            response: Response = await handle(request)
        except StreamlingError as error:
            status = 400 if not error.internal else 503
            return JSONResponse({"error": str(error), "remedy": error.remedy}, status)
        return response

    return answer
