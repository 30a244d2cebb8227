"""What every request has to pass before it reaches the API: host, origin, token, rate, size and type of its body."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from streamling.admin.guard import host_name
from streamling.console import is_console_path
from streamling.serve.access import Access, Principal, RateLimit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 1024 * 1024
#: for probes of the platform, which have no token
_PUBLIC = ("/healthz", "/readyz")


class _Rejected(Exception):
    def __init__(self, status: int, code: str, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "message": message, "remedy": remedy}, "problems": []}


class Guard:
    """An ASGI application in front of the API."""

    def __init__(self, inner: Application, access: Access, limit: RateLimit, hosts: frozenset[str]) -> None:
        """``hosts`` are the names under which clients may reach the server, without ports."""
        self._inner = inner
        self._access = access
        self._limit = limit
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._check_origin(headers)
            if scope["path"] not in _PUBLIC and not is_console_path(scope["path"]):
                scope["principal"] = self._check_token(headers)
            body = await self._checked_body(scope["method"], headers, receive)
        except _Rejected as rejected:
            await _respond(send, rejected)
            return
        await self._inner(scope, _replayed(body, receive), send)

    def _check_origin(self, headers: dict[str, str]) -> None:
        """A browser sends the name it has resolved: a foreign one means that a page tries to reach this server through
        a name of its own (DNS rebinding)."""
        host = host_name(headers.get("host", ""))
        if host not in self._hosts:
            raise _Rejected(
                403, "unknown_host", f"the Host header names '{host}'", "add the name to serve.hosts if clients use it"
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise _Rejected(403, "foreign_origin", "requests from other web sites are not accepted")

    def _check_token(self, headers: dict[str, str]) -> Principal:
        principal = self._access.principal(headers.get("authorization"))
        if not self._limit.allows("" if principal is None else principal.name):
            raise _Rejected(429, "too_many_requests", "too many requests", "wait, or raise serve.requests_per_minute")
        if principal is None:
            raise _Rejected(
                401,
                "unauthorized",
                "the token is missing or wrong",
                "send the header 'Authorization: Bearer TOKEN'; the command line takes STREAMLING_TOKEN",
            )
        return principal

    @staticmethod
    async def _checked_body(method: str, headers: dict[str, str], receive: Receive) -> bytes:
        if method in ("GET", "HEAD"):
            return b""
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False) and message["type"] == "http.request"
            if len(body) > MAX_BODY_BYTES:
                raise _Rejected(413, "too_large", f"the body is larger than {MAX_BODY_BYTES // 1024} KiB")
        # a form of another web site cannot send this type without asking first
        if body and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise _Rejected(415, "wrong_type", "the Content-Type of the body must be application/json")
        return body


def _replayed(body: bytes, receive: Receive) -> Receive:
    """``body`` once, then what follows: the end of the connection."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _respond(send: Send, rejected: _Rejected) -> None:
    body = json.dumps(rejected.body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if rejected.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": rejected.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
