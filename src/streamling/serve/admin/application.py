"""The ASGI application of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from streamling.observe.telemetry.log_book import LogBook
from streamling.observe.telemetry.prometheus import exposition
from streamling.pipeline.config import AppConfig
from streamling.serve.admin.guard import guarded_by_token
from streamling.serve.admin.routes import Preview, pipeline_routes, preview_route
from streamling.serve.console import mount_console

if TYPE_CHECKING:
    from streamling.engine.run.observed import ObservedRun


def create_application(run: ObservedRun, config: AppConfig, logs: LogBook, preview: Preview | None = None) -> ASGIApp:
    """Create an application with probes, metrics, and the routes of the pipeline under `/admin`; with ``preview`` also
    one that starts it."""

    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(request: Request) -> Response:
        return JSONResponse({"status": run.state}, 200 if run.is_ready else 503)

    def metrics(request: Request) -> Response:
        text = exposition(run.measurements(), {"service_instance_id": config.application_id})
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    routes = pipeline_routes(run, logs, config.application_id)
    if preview is not None:
        routes.append(preview_route(preview))
    application = Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            Mount("/admin", routes=routes),
        ]
    )
    mount_console(application, "pipeline")
    token = config.admin_api_token
    secret = None if token is None else token.get_secret_value()
    return guarded_by_token(application, secret)
