"""One HTTP connection: reads requests and answers them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from streamling.dev.services.clickhouse_server import faults
from streamling.dev.services.clickhouse_server.compression import decompress
from streamling.dev.services.clickhouse_server.errors import ClickHouseError
from streamling.dev.services.clickhouse_server.execution import Execution
from streamling.dev.services.clickhouse_server.form import Form, is_form, parse_form
from streamling.dev.services.clickhouse_server.request import Request
from streamling.dev.services.clickhouse_server.response import Dropped, Response
from streamling.dev.services.clickhouse_server.statement import Statement

if TYPE_CHECKING:
    from streamling.dev.services.clickhouse_server.server import ChdbServer


_HEALTH: Final = ("/ping", "/replicas_status")


class Handler(BaseHTTPRequestHandler):
    """Created by the server for each connection, in a thread of its own; ``do_*`` is called for each request."""

    server: ChdbServer
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # status, headers and a small body leave in one packet
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""

    def _answer(self) -> None:
        raw_body = read_body(self.rfile, self.headers)
        try:
            self._dispatch(raw_body)
            for _ in raw_body:
                pass  # what nobody read, which would be taken for the next request
        except (Dropped, BrokenBody, ConnectionError):
            self.close_connection = True

    def _dispatch(self, raw_body: Iterator[bytes]) -> None:
        url = urlsplit(self.path)
        response = Response(self, "")
        if url.path in _HEALTH or (url.path == "/" and self.command == "GET" and not url.query):
            response.send(HTTPStatus.OK, b"Ok.\n")
            return
        try:
            body = decompress(raw_body, self.headers.get("Content-Encoding", "").strip().lower())
            content_type = self.headers.get("Content-Type", "")
            form = parse_form(b"".join(body), content_type) if is_form(content_type) else Form()
            request = Request.parse(url.query, self.headers, form, is_get=self.command == "GET")
            response = self._response(request)
            self.server.authenticate(request)
            if url.path == faults.PATH:
                self._control_faults(b"".join(body), response)
            else:
                self._execute(request, body, response)
        except ClickHouseError as error:
            if not response.started:
                for _ in raw_body:
                    pass  # clients read the response only after they have sent the request
            response.fail(error)

    def _response(self, request: Request) -> Response:
        wanted = request.flag("enable_http_compression")
        response = Response(self, self.headers.get("Accept-Encoding", "") if wanted else "")
        response.query_id = request.query_id
        response.timezone = request.parameters.get("session_timezone") or self.server.engine.timezone
        return response

    def _execute(self, request: Request, body: Iterator[bytes], response: Response) -> None:
        statement = Statement.read(request.query, body)
        fault = self.server.faults.take(statement.head)
        with self.server.sessions.connection(request, lasting_only=statement.changes_session) as connection:
            Execution(self.server.engine, request, statement, connection, response, fault).run()

    def _control_faults(self, body: bytes, response: Response) -> None:
        if self.command == "POST":
            self.server.faults.add(faults.Fault.parse(body.decode()))
        elif self.command == "DELETE":
            self.server.faults.clear()
        response.send(HTTPStatus.OK, self.server.faults.listed())

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client closed its connection
            super().handle()

    def finish(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().finish()


# ── the body of a request ────────────────────────────────────────────────────────────────────────────────────────

_CHUNK_BYTES: Final = 1 << 20


class BrokenBody(Exception):
    """The client went away before the end of its request."""


def read_body(stream: BufferedIOBase, headers: Message) -> Iterator[bytes]:
    """Yield the pieces of the body as they arrive, of at most 1 MiB."""
    if "chunked" in headers.get("Transfer-Encoding", "").lower():
        yield from _chunked(stream)
    else:
        yield from _counted(stream, int(headers.get("Content-Length") or 0))


def _chunked(stream: BufferedIOBase) -> Iterator[bytes]:
    while length := _chunk_length(_line(stream)):
        yield from _counted(stream, length)
        _line(stream)
    while _line(stream).strip():
        pass  # trailers


def _chunk_length(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise BrokenBody from None


def _counted(stream: BufferedIOBase, length: int) -> Iterator[bytes]:
    while length:
        piece = stream.read(min(length, _CHUNK_BYTES))
        if not piece:
            raise BrokenBody
        length -= len(piece)
        yield piece


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(1 << 16)
    if not line.endswith(b"\n"):
        raise BrokenBody
    return line
