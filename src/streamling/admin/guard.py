"""What every request to the admin API has to pass: the name of the host, the origin, the token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from streamling.console import is_console_path

#: for probes of the platform, which have no token
_PUBLIC: Final = ("/healthz", "/readyz")
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
#: scripts and styles only from here, nothing inline; no page may embed this one
_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, inner: ASGIApp, *, token: str | None) -> None:
        """With a token, requests may name any host: the token protects against pages that reach this server through a
        name of their own."""
        self._inner = inner
        self._hosts: Collection[str] | None = _LOOPBACK if token is None else None
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(scope["path"], headers)
        if refused is not None:
            await _respond(send, *refused)
            return

        async def send_with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                given = message.setdefault("headers", [])
                assert isinstance(given, list)
                given += [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            await send(message)

        await self._inner(scope, receive, send_with_headers)  # type: ignore[arg-type]

    def _refusal(self, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and reason; None if the request may pass. A browser sends the name that it has resolved: a foreign one
        means that a page tries to reach this server through a name of its own (DNS rebinding)."""
        host = headers.get("host", "")
        if self._hosts is not None and host_name(host) not in self._hosts:
            return 403, f"the Host header names '{host_name(host)}', which is not this server"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "requests from other web sites are not accepted"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "requests from other web sites are not accepted"
        is_public = path in _PUBLIC or is_console_path(path)
        if self._token is not None and not is_public and not self._has_token(headers):
            return 401, "the token is missing or wrong: send the header 'Authorization: Bearer TOKEN'"
        return None

    def _has_token(self, headers: dict[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        assert self._token is not None
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode())


async def _respond(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def host_name(header: str) -> str:
    """The name in a Host header, without the port."""
    name, _, port = header.rpartition(":")
    return (name if port.isdigit() and name else header).lower()
