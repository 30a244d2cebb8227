"""The OTLP endpoint: the address from the configuration, and the headers from the environment."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from streamling.pipeline.document.scalars import redact_url

log = logging.getLogger(__name__)

Signal = Literal["metrics", "traces"]
_GRPC_PORT: Final = 4317


@dataclass(frozen=True)
class Collector:
    """An OTLP receiver; messages may contain only ``shown``."""

    shown: str
    #: for HTTP, without user and password
    url: str
    #: for gRPC
    host: str
    secure: bool
    #: names in lower case
    headers: Mapping[str, str]

    @property
    def secrets(self) -> Iterator[str]:
        """What must be masked."""
        yield from (word for value in self.headers.values() for word in value.split())
        yield from (value for _, value in parse_qsl(urlsplit(self.url).query) if value)

    @classmethod
    def of(cls, address: str, env: Mapping[str, str], signal: Signal = "metrics") -> Collector:
        parts = urlsplit(address)
        return cls(
            shown=redact_url(address),
            url=urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], path=_path(parts.path, signal))),
            host=_host(parts),
            secure=parts.scheme == "https",
            headers={**dict(_authorization(parts)), **headers_from(env, signal)},
        )


def headers_from(env: Mapping[str, str], signal: Signal = "metrics") -> dict[str, str]:
    """Return the headers in OpenTelemetry's variables: ``name=value,name=value``, percent-encoded. For an invalid
    entry, only the variable is logged: the text may be secret."""
    headers: dict[str, str] = {}
    # the more specific one is read last and wins
    for variable in ("OTEL_EXPORTER_OTLP_HEADERS", f"OTEL_EXPORTER_OTLP_{signal.upper()}_HEADERS"):
        for entry in filter(str.strip, env.get(variable, "").split(",")):
            name, equals, value = (unquote(part.strip()) for part in entry.partition("="))
            if equals and name and (name + value).isprintable() and name.isascii():
                headers[name.lower()] = value
            else:
                log.warning("%s contains an entry that is not name=value; ignored", variable)
    return headers


def _path(path: str, signal: Signal) -> str:
    return f"/v1/{signal}" if path in ("", "/") else path


def _host(parts: SplitResult) -> str:
    name = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else _GRPC_PORT)
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _authorization(parts: SplitResult) -> Iterator[tuple[str, str]]:
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        yield "authorization", f"Basic {b64encode(user.encode()).decode()}"
