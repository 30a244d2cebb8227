"""What is written on a connection: the address of an endpoint and the head of a request."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from streamling import __version__
from streamling.http.addresses import is_address
from streamling.http.decoding import ACCEPTED

_PORTS: Final = {"http": 80, "https": 443}
#: signs of a path and a query that stay as they are; "%" because what is escaped already must not be escaped again
_PATH: Final = "/%:@!$&'()*+,;=~"
_QUERY: Final = _PATH + "?"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class InvalidUrlError(ValueError):
    """An address that cannot be called."""


@dataclass(frozen=True)
class Origin:
    """Whom a connection leads to."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


def origin_of(url: str) -> Origin:
    """Raises `InvalidUrlError`."""
    parts = _parsed(url)
    return Origin(_host(parts), _port(parts), parts.scheme == "https")


class Request:
    """Everything of a request that is known before its body. Made once per address: this is most of the work."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = _parsed(url)
        self.origin = origin_of(url)
        path = quote(parts.path or "/", safe=_PATH)
        query = f"?{quote(parts.query, safe=_QUERY)}" if parts.query else ""
        lines = [f"POST {path}{query} HTTP/1.1"]
        lines += (f"{name}: {value}" for name, value in _headers(parts, self.origin, headers).items())
        self._head = ("\r\n".join(lines) + "\r\nContent-Length: ").encode()

    def text(self, body: bytes) -> bytes:
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)


def _parsed(url: str) -> SplitResult:
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
        raise InvalidUrlError(host)  # an old way to write an IPv4 address
    try:
        name = host.encode("idna").decode()
    except UnicodeError:
        raise InvalidUrlError(host) from None
    if not _NAME.fullmatch(name):
        raise InvalidUrlError(host)
    return name


def _headers(parts: SplitResult, origin: Origin, own: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request; those that the user names win, however they are spelled."""
    host = f"[{origin.host.partition('%')[0]}]" if ":" in origin.host else origin.host
    made = {
        "Host": host if origin.port == _PORTS[parts.scheme] else f"{host}:{origin.port}",
        "User-Agent": f"streamling/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": ACCEPTED,
    }
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        made["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
    named = {name.lower() for name in own}
    return {name: value for name, value in made.items() if name.lower() not in named} | dict(own)
