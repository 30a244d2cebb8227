"""The preview server: runs pipelines that it receives, without their sinks."""

from __future__ import annotations

import logging

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.redaction import redact
from streamling.serve.admin.guard import guarded_by_token
from streamling.serve.admin.server import create_server, listen
from streamling.serve.previews import FilePreviews

log = logging.getLogger(__name__)


def serve_previews(config: AppConfig, config_name: str | None) -> None:
    """Answer requests until a signal arrives."""
    try:
        listening = listen(config)
    except OSError as error:
        address = f"{config.admin_api_host}:{config.admin_api_port}"
        raise StreamlingError(f"the preview server cannot listen on {address}: {error.strerror}") from None
    previews = FilePreviews(config, config_name)

    async def preview(request: Request) -> Response:
        try:
            text = (await request.body()).decode("utf-8", "replace")
            events = await previews.open(text, request.query_params)
        except StreamlingError as error:
            return PlainTextResponse(redact(_with_remedy(error)), 502 if error.internal else 422)
        return StreamingResponse(events, media_type="text/event-stream")

    with listening:
        token = config.admin_api_token
        application = guarded_by_token(
            Starlette(routes=[Route("/preview", preview, methods=["POST"]), Route("/healthz", _healthy)]),
            None if token is None else token.get_secret_value(),
            body_type=None,
        )
        host, port = listening.getsockname()[:2]
        log.info("preview server: http://%s:%d/preview", host, port)
        create_server(application).run(sockets=[listening])


async def _healthy(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _with_remedy(error: StreamlingError) -> str:
    return f"{error} ({error.remedy})" if error.remedy else str(error)
