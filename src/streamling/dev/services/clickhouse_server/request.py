"""What a request asks for: the parameters of ClickHouse's HTTP interface."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Final
from urllib.parse import parse_qsl
from uuid import uuid4

from streamling.dev.services.clickhouse_server.errors import ClickHouseError

#: parameters of the interface itself; every other one is a setting or a query parameter
_OWN: Final = frozenset(
    {
        "query",
        "database",
        "default_format",
        "query_id",
        "session_id",
        "session_timeout",
        "session_check",
        "user",
        "password",
        "quota_key",
        "role",
        "compress",
        "decompress",
        "buffer_size",
        "wait_end_of_query",
        "stacktrace",
        "close_session",
        "client_protocol_version",
    }
)


@dataclass(frozen=True)
class Request:
    """The parameters and headers of one request; names of parameters as in the URL."""

    parameters: Mapping[str, str]
    headers: Message
    is_get: bool
    #: external data: table → content
    files: Mapping[str, bytes]
    query_id: str

    @classmethod
    def parse(cls, query_string: str, headers: Message, form: Form, *, is_get: bool) -> Request:
        parameters = {**dict(parse_qsl(query_string, keep_blank_values=True)), **form.parameters}
        return cls(parameters, headers, is_get, form.files, parameters.get("query_id") or str(uuid4()))

    @property
    def query(self) -> str:
        return self.parameters.get("query", "")

    @property
    def database(self) -> str:
        return self.parameters.get("database") or str(self.headers.get("X-ClickHouse-Database", ""))

    @property
    def format(self) -> str:
        """The format of the output if the query names none."""
        return self.parameters.get("default_format") or self.headers.get("X-ClickHouse-Format", "") or "TabSeparated"

    @property
    def settings(self) -> dict[str, str]:
        return {
            name: value
            for name, value in self.parameters.items()
            if name not in _OWN and not name.startswith("param_") and not self._describes_file(name)
        }

    def _describes_file(self, parameter: str) -> bool:
        table, _, suffix = parameter.rpartition("_")
        return suffix in ("structure", "types", "format") and table in self.files

    @property
    def query_parameters(self) -> dict[str, str]:
        """Values of the placeholders ``{name:Type}``."""
        return {
            name.removeprefix("param_"): value for name, value in self.parameters.items() if name.startswith("param_")
        }

    def flag(self, name: str) -> bool:
        return self.parameters.get(name, "0") in ("1", "true")

    def credentials(self) -> tuple[str, str]:
        """Return user and password, from headers, basic authentication or the URL."""
        if "X-ClickHouse-User" in self.headers or "X-ClickHouse-Key" in self.headers:
            return self.headers.get("X-ClickHouse-User", "default"), self.headers.get("X-ClickHouse-Key", "")
        scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                user, _, password = base64.b64decode(encoded).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                raise ClickHouseError.of(516, "AUTHENTICATION_FAILED", "Invalid HTTP Basic credentials.") from None
            return user or "default", password
        return self.parameters.get("user", "default"), self.parameters.get("password", "")


# ── bodies of type multipart/form-data: parameters, and external data for the query ──────────────────────────────

_BOUNDARY: Final = re.compile(r'boundary="?([^";]+)"?')
_FIELD: Final = re.compile(rb'name="([^"]*)"(?:;\s*filename="([^"]*)")?')


@dataclass(frozen=True)
class Form:
    """The parts of a form: ``parameters`` are treated like those of the URL, ``files`` are tables."""

    parameters: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


def is_form(content_type: str) -> bool:
    return content_type.startswith("multipart/form-data")


def parse_form(body: bytes, content_type: str) -> Form:
    form = Form()
    boundary = _BOUNDARY.search(content_type)
    separator = b"\r\n--" + (boundary[1] if boundary else "").encode()
    for part in (b"\r\n" + body).split(separator)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        found = _FIELD.search(head)
        if found is None:
            continue
        name = found[1].decode()
        if found[2] is None:
            form.parameters[name] = content.decode()
        else:
            form.files[name] = content
    return form
