"""Requests to the admin API of another process on this machine.

A response is streamed: unread data is never fetched, and the other process stops sending.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import httptools

from streamling.errors import StreamlingError

_PART_BYTES: Final = 64 * 1024
#: from the request to the first line of the response
_ANSWER_SECONDS: Final = 30.0


@dataclass(frozen=True)
class RemoteAdmin:
    """Where the routes of a pipeline are served."""

    port: int
    token: str | None = field(default=None, repr=False)
    base: str = ""

    @asynccontextmanager
    async def get(self, target: str) -> AsyncIterator[RemoteResponse]:
        """Provide the response to a request for ``target``, a path with its query; raise if the process has ended."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            raise _ended() from None
        try:
            writer.write(self._request(target))
            response = RemoteResponse(reader)
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await response.read_head()
            except TimeoutError:
                sentence = f"the process of the pipeline has not answered for {_ANSWER_SECONDS:g} s"
                raise StreamlingError(sentence, retriable=True) from None
            yield response
        finally:
            writer.transport.abort()

    def _request(self, target: str) -> bytes:
        lines = [f"GET {self.base}{target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close"]
        if self.token is not None:
            lines.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


class RemoteResponse:
    """A response whose body is streamed. The parser calls the methods that start with ``on_``."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._reader = reader
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._has_head = self._is_complete = False

    async def read_head(self) -> None:
        while not self._has_head:
            await self._read_more()
        self.status = self._parser.get_status_code()

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body as they arrive."""
        while True:
            parts, self._parts = self._parts, []
            for part in parts:
                yield part
            if self._is_complete:
                return
            await self._read_more()

    async def _read_more(self) -> None:
        try:
            data = await self._reader.read(_PART_BYTES)
        except OSError:
            data = b""
        if not data:
            raise _ended()
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        self._is_complete = True


def _ended() -> StreamlingError:
    return StreamlingError("the process of the pipeline has ended", retriable=True)
