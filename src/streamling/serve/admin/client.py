"""Reads events of an admin API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from streamling.errors import StreamlingError

_CONNECT_SECONDS: Final = 10.0
#: a server sends something at least every 15 seconds
_SILENCE_SECONDS: Final = 60.0
_LONGEST_ERROR: Final = 64 * 1024


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    data: str


class AdminClient:
    """Requests below one base address."""

    def __init__(self, base: str, token: str | None = None) -> None:
        self._parts = urlsplit(base)
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise StreamlingError.user(f"'{base}' is not an address such as http://127.0.0.1:3000")
        self._headers = {"accept": "text/event-stream"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    def events(self, path: str) -> Iterator[Event]:
        """The events of ``path`` until the server ends them, without those that only say so."""
        where = f"{self._parts.scheme}://{self._parts.netloc}"
        try:
            connection = self._connect()
            try:
                connection.request("GET", self._parts.path.rstrip("/") + path, headers=self._headers)
                response = connection.getresponse()
                if connection.sock is not None:
                    connection.sock.settimeout(_SILENCE_SECONDS)
                if response.status != 200:
                    raise _refused(response, where)
                for event in _parse(response):
                    if event.name == "error":
                        raise _reported(json.loads(event.data))
                    if event.name != "end":
                        yield event
            finally:
                connection.close()
        except (OSError, HTTPException) as error:
            raise StreamlingError(f"the admin API at {where} cannot be reached: {error}", retriable=True) from None

    def _connect(self) -> HTTPConnection:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        return kind(self._parts.hostname or "", self._parts.port, timeout=_CONNECT_SECONDS)


def _reported(body: Any) -> StreamlingError:
    """An error as the API describes it."""
    error = body["error"]
    return StreamlingError.user(str(error["message"]), remedy=error["remedy"])


def _refused(response: HTTPResponse, where: str) -> StreamlingError:
    try:
        return _reported(json.loads(response.read(_LONGEST_ERROR)))
    except (ValueError, KeyError, TypeError):
        return StreamlingError.user(f"{where} answered {response.status} {response.reason}")


def _parse(response: HTTPResponse) -> Iterator[Event]:
    """Events as they arrive; comments are skipped."""
    name = ""
    data: list[str] = []
    for line in response:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data:
                yield Event(name, "\n".join(data))
            name, data = "", []
        elif text.startswith("event:"):
            name = text[6:].strip()
        elif text.startswith("data:"):
            data.append(text[5:].removeprefix(" "))
