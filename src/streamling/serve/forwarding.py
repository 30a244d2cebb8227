"""The routes of a pipeline that another process serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamling.errors import StreamlingError
from streamling.serve.admin.remote import RemoteAdmin, RemoteResponse

_HEADERS: Final[tuple[str, ...]] = ("content-type", "content-length", "x-accel-buffering")


@dataclass(frozen=True)
class Forwarding:
    """An ASGI application that passes requests on and responses back."""

    admin: RemoteAdmin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = quote(scope["path"].removeprefix(scope.get("root_path", "")))
        query = scope["query_string"].decode("latin-1")
        async with self.admin.get(f"{path}?{query}" if query else path) as remote:
            headers = {name: remote.headers[name] for name in _HEADERS if name in remote.headers}
            # also notices that the client has gone, and closes both connections
            await StreamingResponse(_body(remote), remote.status, headers)(scope, receive, send)


async def _body(remote: RemoteResponse) -> AsyncIterator[bytes]:
    """Yield the body. A process that ends in the middle of a stream ends the stream; the client asks again."""
    try:
        async for part in remote.body():
            yield part
    except StreamlingError:
        return
