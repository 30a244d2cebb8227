"""A client for ClickHouse's HTTP interface, on the standard library."""

from __future__ import annotations

import io
import json
import ssl
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from socket import SHUT_RDWR
from typing import Any, Final, Self
from urllib.parse import urlencode

import pyarrow as pa

from streamling import __version__
from streamling.connectors.clickhouse.errors import ServerError, find_exception, server_error, tls_error
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.errors import StreamlingError, Unreachable
from streamling.network.http.blocking import reason_of

_CONNECT_SECONDS: Final = 10.0
#: servers close connections that are idle for 3 seconds or more
_IDLE_SECONDS: Final = 2.0
_MAX_TEXT_BYTES: Final = 64 << 20
#: end of a stream in which the text of an exception is looked for
_TAIL_BYTES: Final = 16 << 10
#: bytes per read: Arrow asks for a few at a time between two record batches
_READ_BYTES: Final = 1 << 20

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})

#: texts by the names of parameters
Parameters = Mapping[str, str]


class ClickHouseClient:
    """One connection to a server. It connects on the first request and again when the connection was lost. Not
    thread-safe.

    Every failure is a `StreamlingError`: a `ServerError` if the server reported it, `Unreachable` if it has never
    responded. Those that may disappear are marked as retriable; the caller decides whether to retry.
    """

    def __init__(self, server: ClickHouseServer, *, application_id: str, timeout: float) -> None:
        """``timeout`` is how long the server may be silent, in seconds."""
        self.server = server
        self._timeout = timeout
        login = b64encode(f"{server.user}:{server.password}".encode()).decode()
        self._headers = {
            "User-Agent": f"streamling/{__version__} app={_printable(application_id)}",
            "Authorization": f"Basic {login}",
        }
        self._connection: HTTPConnection | None = None
        self._used = 0.0
        #: whether the server has ever responded
        self._has_answered = False

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        """Return the rows of a query with a small result. ``{name:Type}`` in ``sql`` stands for a parameter."""
        text = self._text(
            f"{sql} FORMAT JSONEachRow", {**_named(parameters), "output_format_json_quote_64bit_integers": "0"}
        )
        try:
            return [json.loads(line) for line in text.splitlines() if line]
        except ValueError:
            raise self._in_body(text) from None

    def execute(self, sql: str, *, settings: Mapping[str, str] | None = None) -> None:
        """Run a statement that returns nothing."""
        text = self._text(sql, settings or {})
        if find_exception(text) is not None:
            raise self._in_body(text)

    def insert(
        self, statement: str, data: bytes | memoryview, *, encoding: str | None, settings: Mapping[str, str]
    ) -> None:
        """Run ``INSERT … FORMAT …`` with ``data``, which is compressed as ``encoding`` says. Returns when the server
        has stored the rows."""
        headers = {"Content-Type": "application/octet-stream"}
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        text = self._text(data, {**settings, "query": statement}, headers)
        if find_exception(text) is not None:
            raise self._in_body(text)

    def arrow(
        self, sql: str, parameters: Parameters | None = None, settings: Mapping[str, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of a query as the server sends them. An error may follow after any number of batches, so
        nothing may be used as complete before the iterator has ended."""
        options = {**_named(parameters), "output_format_arrow_string_as_string": "1", **(settings or {})}
        with self._response(f"{sql} FORMAT ArrowStream", options, {}) as response:
            body = _Body(response)
            try:
                with pa.ipc.open_stream(pa.PythonFile(body, mode="r")) as reader:
                    yield from reader
                body.drain()
            except (pa.ArrowException, ValueError, OSError) as error:
                if body.failure is not None:
                    raise body.failure from None
                with suppress(OSError, HTTPException):
                    body.drain()
                raise self._in_body(body.tail(), str(error)) from None
            if not body.ended_with_marker:
                raise self._in_body(body.tail(), "the end of the stream is missing")

    def abort(self) -> None:
        """Make the current request fail; the only method that another thread may call."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── one exchange ────────────────────────────────────────────────────────────────────────────────────────

    def _text(
        self, body: str | bytes | memoryview, options: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> str:
        # the server keeps the result until the query has ended, so that an error has a status of its own
        with self._response(body, {**options, "wait_end_of_query": "1"}, headers or {}) as response:
            try:
                text = response.read(_MAX_TEXT_BYTES + 1)
                is_cut = bool(response.length)  # http.client does not notice it if the length was announced
            except IncompleteRead as error:
                text, is_cut = error.partial, True
            if is_cut:  # the last part may be the text of an exception
                raise self._in_body(text.decode(errors="replace"), "the connection was closed")
            if len(text) > _MAX_TEXT_BYTES:
                raise StreamlingError(f"ClickHouse at {self.server} returned more than {_MAX_TEXT_BYTES} bytes")
            return text.decode(errors="replace")

    @contextmanager
    def _response(
        self, body: str | bytes | memoryview, options: Mapping[str, str], headers: Mapping[str, str]
    ) -> Iterator[HTTPResponse]:
        """Provide the response to one request, whose status is 200. The connection is kept only if it was read to its
        end."""
        query = urlencode({"database": self.server.database, **options})
        target = f"{self.server.path}?{query}"
        data = body.encode() if isinstance(body, str) else body
        complete = False
        try:
            connection = self._connect()
            with suppress(
                BrokenPipeError, ConnectionResetError
            ):  # the server may respond before it has read everything
                connection.request("POST", target, data, {**self._headers, **headers})
            response = connection.getresponse()
            self._has_answered = True
            if response.status != 200 or "X-ClickHouse-Exception-Code" in response.headers:
                raise self._status_error(response)
            yield response
            complete = response.isclosed()
        except (OSError, HTTPException) as error:
            raise self._lost(error) from None
        finally:
            if complete:
                self._used = time.monotonic()
            else:
                self.close()

    def _connect(self) -> HTTPConnection:
        if self._connection is not None and time.monotonic() - self._used > _IDLE_SECONDS:
            self.close()
        if self._connection is None:
            origin = self.server.origin
            if origin.tls:
                self._connection = HTTPSConnection(
                    origin.host, origin.port, timeout=_CONNECT_SECONDS, context=self.server.tls_context()
                )
            else:
                self._connection = HTTPConnection(origin.host, origin.port, timeout=_CONNECT_SECONDS)
            self._connection._create_connection = self.server.network.create_connection  # type: ignore[attr-defined]
            self._connection.connect()
            self._connection.sock.settimeout(self._timeout)
        return self._connection

    # ── errors ──────────────────────────────────────────────────────────────────────────────────────────────

    def _status_error(self, response: HTTPResponse) -> ServerError:
        code = response.headers.get("X-ClickHouse-Exception-Code", "")
        with suppress(OSError, HTTPException):
            text = response.read(_TAIL_BYTES).decode(errors="replace")
            return server_error(self.server, response.status, int(code) if code.isdigit() else 0, text)
        return server_error(self.server, response.status, int(code) if code.isdigit() else 0, "")

    def _in_body(self, text: str, reason: str = "") -> StreamlingError:
        """Return the error behind a body with status 200 that is not what was asked for."""
        if find_exception(text) is not None:
            return server_error(self.server, 200, 0, text)
        return StreamlingError.transient(
            f"ClickHouse at {self.server} sent an incomplete response" + (f": {reason}" if reason else "")
        )

    def _lost(self, error: OSError | HTTPException) -> StreamlingError:
        if isinstance(error, ssl.SSLError):
            return tls_error(self.server, error)
        if isinstance(error, TimeoutError):
            reason = f"no answer within {self._timeout if self._connection else _CONNECT_SECONDS:g} s"
        else:
            reason = reason_of(error)
        if self._has_answered:
            return StreamlingError.transient(f"the connection to ClickHouse at {self.server} was lost: {reason}")
        return Unreachable(
            f"ClickHouse at {self.server} does not respond: {reason}",
            remedy=f"start the server, or correct {self.server.section}.url",
        )


class _Body(io.RawIOBase):
    """The body of a response as a file. Remembers the end of what was read, which may be the text of an exception."""

    #: an Arrow stream ends with a continuation marker and a length of 0
    _MARKER = b"\xff\xff\xff\xff\0\0\0\0"

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        self._tail = b""
        #: the connection was closed before the end of the body
        self._is_cut = False
        #: error of the connection; Arrow's own may be an OSError too
        self.failure: OSError | HTTPException | None = None
        self.ended_with_marker = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._is_cut:
            return b""
        try:
            data = self._response.read(size if size >= 0 else None)
        except IncompleteRead as error:  # the last part may be the text of an exception
            data, self._is_cut = error.partial, True
        except (OSError, HTTPException) as error:
            self.failure = error
            raise
        self._remember(data)
        return data

    def drain(self) -> None:
        """Read what follows the Arrow stream: nothing, or the text of an exception."""
        self.ended_with_marker = self._tail.endswith(self._MARKER)
        while self.read(_READ_BYTES):
            self.ended_with_marker = False

    def tail(self) -> str:
        return self._tail.decode(errors="replace")

    def _remember(self, data: bytes) -> None:
        self._tail = data[-_TAIL_BYTES:] if len(data) >= _TAIL_BYTES else (self._tail + data)[-_TAIL_BYTES:]


def _named(parameters: Parameters | None) -> dict[str, str]:
    """Return parameters by their names in the request, escaped: the server reads their values as a field of a
    tab-separated file."""
    return {f"param_{name}": value.translate(_ESCAPES) for name, value in (parameters or {}).items()}


def _printable(text: str) -> str:
    return "".join(character if character.isascii() and character.isprintable() else "_" for character in text)
