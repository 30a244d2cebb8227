"""One connection to a server, and the responses received over it.

Written on asyncio's transports with the parser of Node.js (llhttp): a handler that posts single rows takes less than
half of the CPU time that it took with aiohttp, the fastest of the clients that were tried: urllib3 on 25 threads takes
1.5 times as long, niquests 4 times, httpx 15 times.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import httptools

from streamling.network.http.decoding import PLAIN, Decoder, decoder_of
from streamling.network.http.errors import NoResponseError, ResponseTooLargeError

#: statuses without a body, whatever the headers say
_BODILESS: Final = frozenset({204, 304})
#: maximum number of bytes in addition to the body: interim responses, status line, headers, chunk extensions, trailers
_MAX_OVERHEAD: Final = 65536
_BROKEN: Final = "the connection broke before the response was complete"
_NOT_HTTP: Final = "the response is not HTTP"


@dataclass(slots=True)
class Response:
    """A response with any status."""

    status: int
    reason: str
    body: bytes
    #: seconds after which the server asks for a retry
    retry_after: float = 0.0
    location: str | None = None


class Connection(asyncio.Protocol):
    """Carries one request at a time. asyncio and the parser call all methods other than `exchange` and `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.WriteTransport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._decoder: Decoder = PLAIN
        #: remaining limits for the body, before and after decompression
        self._max_sent = self._max_decoded = 0
        #: time at which the last response was complete
        self.idle_since = 0.0
        #: done when the connection is closed
        self.closed: asyncio.Future[None] = self._loop.create_future()
        #: bytes of the response in addition to its body; bytes of the current chunk
        self._overhead = self._chunk = 0
        self._begin()

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, text: bytes, *, max_bytes: int, deadline: float) -> Response:
        """Send the request ``text`` and wait for the response. Raises `NoResponseError`, `ResponseTooLargeError`, or
        TimeoutError at ``deadline``, a time of the loop's clock."""
        assert self._transport is not None
        waiter: asyncio.Future[Response] = self._loop.create_future()
        self._waiter = waiter
        self._max_decoded = self._max_sent = max_bytes
        self._overhead = 0
        timer = self._loop.call_at(deadline, self._fail, TimeoutError())
        self._transport.write(text)
        try:
            return await waiter
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ── called by asyncio ────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(NoResponseError(_NOT_HTTP))
        if self._overhead > _MAX_OVERHEAD:
            self._fail(NoResponseError(f"the response has more than {_MAX_OVERHEAD} bytes in addition to its body"))

    def connection_lost(self, error: Exception | None) -> None:
        if error is None and self._until_end:
            self._finish()
        self._fail(NoResponseError(_BROKEN))
        self._transport = None
        self.closed.set_result(None)

    # ── called by the parser ─────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._waiter is None:
            self.close()  # unsolicited: the server is closing the connection, or is out of step
        self._begin()

    def on_status(self, status: bytes) -> None:
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        headers = self._headers
        self._until_end = (
            self._status >= 200
            and self._status not in _BODILESS
            and b"content-length" not in headers
            and b"chunked" not in headers.get(b"transfer-encoding", b"").lower()
        )
        if encoding := headers.get(b"content-encoding"):
            self._decoder = decoder_of(encoding.decode("latin-1"))
        if int(headers.get(b"content-length", b"0")) > self._max_sent and self._status not in _BODILESS:
            self._fail(ResponseTooLargeError())

    def on_body(self, data: bytes) -> None:
        if self._waiter is None:
            return
        self._overhead -= len(data)
        self._chunk += len(data)
        self._max_sent -= len(data)
        if self._max_sent < 0:
            self._fail(ResponseTooLargeError())
            return
        try:
            part = self._decoder.decode(data, self._max_decoded)
        except (NoResponseError, ResponseTooLargeError) as error:
            self._fail(error)
        else:
            self._max_decoded -= len(part)
            self._add(part)

    def on_chunk_header(self) -> None:
        self._chunk = 0

    def on_chunk_complete(self) -> None:
        self._overhead -= len(f"{self._chunk:x}\r\n\r\n")

    def on_message_complete(self) -> None:
        if self._status < 200:
            self._begin()  # an interim response: the final one follows
            return
        keep = self._parser.should_keep_alive()
        self._finish()
        if not keep:
            self.close()

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        self._status = 0
        self._reason = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: bytes | bytearray = b""
        self._decoder = PLAIN
        self._until_end = False

    def _add(self, part: bytes) -> None:
        """Append a part. A list of parts would need 42 bytes for a chunk of one."""
        if not self._body:
            self._body = part
        elif isinstance(self._body, bytearray):
            self._body += part
        else:
            self._body = bytearray(self._body) + part

    def _finish(self) -> None:
        if self._waiter is None or self._waiter.done():
            return
        try:
            self._decoder.end()
        except NoResponseError as error:
            self._fail(error)
            return
        headers = self._headers
        location = headers.get(b"location")
        self.idle_since = self._loop.time()
        self._waiter.set_result(
            Response(
                self._status,
                self._reason.decode("latin-1"),
                bytes(self._body),
                _seconds(headers.get(b"retry-after")),
                None if location is None else location.decode("latin-1"),
            )
        )
        self._waiter = None

    def _fail(self, error: Exception) -> None:
        """Fail the current request, if there is one, and close the connection."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self.close()


def _seconds(header: bytes | None) -> float:
    return float(header) if header is not None and header.isdigit() else 0.0
