"""Reads events of an admin API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import IO, Any, Final
from urllib.parse import urlsplit

from streamling.errors import StreamlingError
from streamling.network.http.blocking import StreamedResponse, open_stream

_RESPONSE_SECONDS: Final = 10.0
#: a server sends something at least every 15 seconds
_SILENCE_SECONDS: Final = 60.0
_LONGEST_ERROR: Final = 64 * 1024


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    data: str


class AdminClient:
    """Reads from an admin API below one base address."""

    def __init__(self, base: str, token: str | None = None) -> None:
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StreamlingError.user(f"'{base}' is not an address such as http://127.0.0.1:3000")
        self._base = base.rstrip("/")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._headers = {"accept": "text/event-stream"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    def events(self, path: str) -> Iterator[Event]:
        """Yield the events of ``path`` until the server ends them; the event that marks the end is left out."""
        url = f"{self._base}{path}"
        try:
            with open_stream(
                url, headers=self._headers, seconds=_RESPONSE_SECONDS, silence=_SILENCE_SECONDS
            ) as response:
                if response.status != 200:
                    raise _refused(response, self._origin)
                for event in _parse(response.body):
                    if event.name == "error":
                        raise _reported(json.loads(event.data))
                    if event.name != "end":
                        yield event
        except (OSError, HTTPException) as error:
            message = f"the admin API at {self._origin} cannot be reached: {error}"
            raise StreamlingError(message, retriable=True) from None


def _reported(body: Any) -> StreamlingError:
    """Return an error as the API describes it."""
    error = body["error"]
    return StreamlingError.user(str(error["message"]), remedy=error["remedy"])


def _refused(response: StreamedResponse, where: str) -> StreamlingError:
    try:
        return _reported(json.loads(response.body.read(_LONGEST_ERROR)))
    except (ValueError, KeyError, TypeError):
        return StreamlingError.user(f"{where} answered {response.status} {response.reason}")


def _parse(body: IO[bytes]) -> Iterator[Event]:
    """Yield events as they arrive; comments are skipped."""
    name = ""
    data: list[str] = []
    for line in body:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data:
                yield Event(name, "\n".join(data))
            name, data = "", []
        elif text.startswith("event:"):
            name = text[6:].strip()
        elif text.startswith("data:"):
            data.append(text[5:].removeprefix(" "))
