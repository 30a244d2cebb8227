"""The static files of the console as an application, with headers that let the browser load nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamling import __version__

#: What the console shows: all pipelines of `serve`, or the pipeline of one `run`.
View = Literal["fleet", "pipeline"]
_PATH = "/console"
_STATIC = Path(__file__).with_name("static")

_HEADERS: Mapping[str, str] = {
    # Libraries insert no styles into the document: the editor lives in a shadow root with adopted style sheets. Trusted
    # types turn every attempt to parse text as HTML into an error.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # files keep their names between versions: the browser asks whether they have changed
    "Cache-Control": "no-cache",
}


def mount_console(app: Starlette, view: View, names: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> None:
    """Serve the console under `/console` and redirect the root to it. It contains nothing that needs a token.

    ``names``: for each name that a user gives to a pipeline, its ``pattern`` and what is ``expected``."""

    async def get_settings(request: Request) -> JSONResponse:
        return JSONResponse({"view": view, "version": __version__, "names": {**names}})

    async def get_schema(request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(_schema))

    async def to_console(request: Request) -> RedirectResponse:
        return RedirectResponse(f"{_PATH}/")

    routes = [
        Route("/settings.json", get_settings),
        Route("/schema.json", get_schema),
        Mount("/", StaticFiles(directory=_STATIC, html=True)),
    ]
    app.mount(_PATH, Starlette(routes=routes, middleware=[Middleware(_WithHeaders), Middleware(GZipMiddleware)]))
    app.router.routes.append(Route("/", to_console, include_in_schema=False))


def is_console_path(path: str) -> bool:
    """Return whether ``path`` belongs to the console, which needs no token: it asks for one itself."""
    return path in ("/", _PATH) or path.startswith(f"{_PATH}/")


@cache
def _schema() -> dict[str, Any]:
    """Return the built-in node types, for completion in the editor. Plugins would show what is installed to
    everybody."""
    from streamling.pipeline.jsonschema import pipeline_schema
    from streamling.plugins.registry import Registry

    return pipeline_schema(Registry.builtin())


class _WithHeaders:
    """Adds the security headers to every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)
