"""What every request has to pass: the name of the host, the origin, the token, the size and type of its body."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamling.serve.console import is_console_path

MAX_BODY_BYTES: Final = 1024 * 1024
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_BODY_SECONDS: Final = 30.0
#: what decides whether a request passes: if such a header came twice, a proxy might have checked the other one
_ONCE: Final = frozenset(
    (b"host", b"authorization", b"origin", b"sec-fetch-site", b"content-type", b"if-match", b"if-none-match")
)
#: for probes of the platform, which have no token
_PUBLIC: Final = ("/healthz", "/readyz")
#: scripts and styles only from here, nothing inline; no page may embed this one
_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

#: finds out who sends a request with these headers; raises `Rejected`
Authenticate = Callable[[Mapping[str, str]], object]


class Rejected(Exception):
    """A request that does not pass."""

    def __init__(self, status: int, code: str, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(code, message, remedy)


def error_body(code: str, message: str, remedy: str | None = None) -> dict[str, Any]:
    """Return an error as every API of this project describes it."""
    return {"error": {"code": code, "message": message, "remedy": remedy}, "problems": []}


class Guard:
    """An ASGI application in front of another one, which finds the sender as ``principal`` in the scope."""

    def __init__(
        self,
        inner: ASGIApp,
        authenticate: Authenticate,
        *,
        hosts: Collection[str] | None,
        body_type: str | None = "application/json",
    ) -> None:
        """``hosts`` are the names under which clients may reach the server, without ports; None: any. ``body_type`` is
        the only type of a body; None: any."""
        self._inner = inner
        self._authenticate = authenticate
        self._hosts = hosts
        self._body_type = body_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            _check_once(scope["headers"])
            self._check_origin(headers)
            if scope["path"] not in _PUBLIC and not is_console_path(scope["path"]):
                scope["principal"] = self._authenticate(headers)
            async with asyncio.timeout(_BODY_SECONDS):
                body = await self._checked_body(scope["method"], headers, receive)
        except TimeoutError:
            await _respond(send, Rejected(408, "too_slow", f"the body was not complete after {_BODY_SECONDS:g} s"))
            return
        except Rejected as rejected:
            await _respond(send, rejected)
            return
        await self._inner(scope, _replayed(body, receive), _with_headers(send))

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Reject foreign names of this server. A browser sends the name that it has resolved: a foreign one means that
        a page tries to reach this server through a name of its own (DNS rebinding)."""
        host = headers.get("host", "")
        if self._hosts is not None and _host_name(host) not in self._hosts:
            raise Rejected(
                403,
                "unknown_host",
                f"the Host header names '{_host_name(host)}', which is not this server",
                "add the name to serve.hosts if clients of `streamling serve` use it",
            )
        origin = headers.get("origin")
        is_foreign = origin is not None and urlsplit(origin).netloc != host
        if is_foreign or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Rejected(403, "foreign_origin", "requests from other web sites are not accepted")

    async def _checked_body(self, method: str, headers: Mapping[str, str], receive: Receive) -> bytes:
        if method in ("GET", "HEAD"):
            return b""
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False) and message["type"] == "http.request"
            if len(body) > MAX_BODY_BYTES:
                raise Rejected(413, "too_large", f"the body is larger than {MAX_BODY_BYTES // 1024} KiB")
        # a form of another web site cannot send JSON without asking first
        given = headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and self._body_type not in (None, given):
            raise Rejected(415, "wrong_type", f"the Content-Type of the body must be {self._body_type}")
        return body


def _check_once(headers: Iterable[tuple[bytes, bytes]]) -> None:
    counted = Counter(name for name, _ in headers)
    if twice := sorted(name.decode() for name in _ONCE if counted[name] > 1):
        raise Rejected(400, "ambiguous", f"the header {twice[0]} occurs {counted[twice[0].encode()]} times")


def guarded_by_token(inner: ASGIApp, token: str | None, *, body_type: str | None = "application/json") -> Guard:
    """Return ``inner`` behind one token. With it, requests may name any host: the token protects against pages that
    reach this server through a name of their own."""

    def authenticate(headers: Mapping[str, str]) -> None:
        if token is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
            raise unauthorized("send the header 'Authorization: Bearer TOKEN'")

    return Guard(inner, authenticate, hosts=LOOPBACK if token is None else None, body_type=body_type)


def unauthorized(remedy: str) -> Rejected:
    return Rejected(401, "unauthorized", "the token is missing or wrong", remedy)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return ``body`` once, then what follows: the end of the connection."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_headers(send: Send) -> Send:
    """Return the headers that a response does not have yet; the console sets stricter ones."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


async def _respond(send: Send, rejected: Rejected) -> None:
    body = json.dumps(rejected.body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if rejected.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": rejected.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _host_name(header: str) -> str:
    """Return the name in a Host header, without the port."""
    name, _, port = header.rpartition(":")
    return (name if port.isdigit() and name else header).lower()
