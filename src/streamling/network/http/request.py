"""Encodes requests: the origin of an endpoint and the head of a request."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from streamling import __version__
from streamling.network.addresses import is_address
from streamling.network.http.decoding import ACCEPTED

_PORTS: Final = {"http": 80, "https": 443}
#: characters of a path and a query that are not escaped; "%" because what is already escaped must not be escaped again
_PATH: Final = "/%:@!$&'()*+,;=~"
_QUERY: Final = _PATH + "?"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class InvalidUrlError(ValueError):
    """A URL that cannot be called."""


@dataclass(frozen=True)
class Origin:
    """The server that a connection leads to."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


def origin_of(url: str) -> Origin:
    """Return the origin of a URL; raises `InvalidUrlError`."""
    parts = _parse(url)
    return Origin(_host(parts), _port(parts), parts.scheme == "https")


class Request:
    """The part of a request that is known before its body. Created once per address, because this is most of the
    work."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = _parse(url)
        self.origin = origin_of(url)
        path = quote(parts.path or "/", safe=_PATH)
        query = f"?{quote(parts.query, safe=_QUERY)}" if parts.query else ""
        lines = [f"POST {path}{query} HTTP/1.1"]
        lines += (f"{name}: {value}" for name, value in _headers(parts, self.origin, headers).items())
        self._head = ("\r\n".join(lines) + "\r\nContent-Length: ").encode()

    def text(self, body: bytes) -> bytes:
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)


def _parse(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidUrlError(url) from None
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise InvalidUrlError(url)
    return parts


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if is_address(host):
        return host
    if host.isdigit():
        raise InvalidUrlError(host)  # an obsolete notation of an IPv4 address
    try:
        name = host.encode("idna").decode()
    except UnicodeError:
        raise InvalidUrlError(host) from None
    if not _NAME.fullmatch(name):
        raise InvalidUrlError(host)
    return name


def _headers(parts: SplitResult, origin: Origin, own: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request; headers set by the user win, regardless of case."""
    host = f"[{origin.host.partition('%')[0]}]" if ":" in origin.host else origin.host
    defaults = {
        "Host": host if origin.port == _PORTS[parts.scheme] else f"{host}:{origin.port}",
        "User-Agent": f"streamling/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": ACCEPTED,
    }
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        defaults["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
    named = {name.lower() for name in own}
    return {name: value for name, value in defaults.items() if name.lower() not in named} | dict(own)
