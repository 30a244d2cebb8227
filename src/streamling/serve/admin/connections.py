"""Connections of clients that send nothing, or send it slowly: they are closed, and cannot keep others out."""

from __future__ import annotations

import asyncio
import resource
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: from the first byte of a request, or the start of the connection, to the end of the headers
_HEAD_SECONDS: Final = 10.0
_HEAD_BYTES: Final = 64 * 1024
#: Open connections; fewer if the process may open few files, which pipelines need, too. Asyncio accepts some hundred
#: more before it tells us of the first of them.
_MOST, _PART_OF_FILES = 4096, 4


class LimitedConnection(HttpToolsProtocol):
    """A connection whose requests have a head of limited size, in limited time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._await_head()
        if len(self.connections) > _most():
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > _HEAD_BYTES:
            raise httptools.HttpParserError(f"the head of a request is larger than {_HEAD_BYTES} bytes")

    def _await_head(self) -> None:
        self._since = self.loop.time()
        self._timer = self.loop.call_later(_HEAD_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _make_room(self) -> None:
        """Close the connection that has waited longest without a request; this one if all others have one."""
        waiting = [each for each in self.connections if isinstance(each, LimitedConnection) and each._timer is not None]
        oldest = min(waiting, key=lambda each: each._since)
        oldest._stop_timer()  # it is open for a moment, but not found again
        oldest.transport.abort()


def _most() -> int:
    return min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART_OF_FILES)
