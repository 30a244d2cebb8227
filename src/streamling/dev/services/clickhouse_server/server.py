"""The server: a thread per connection, one engine for all."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from socketserver import TCPServer
from typing import Final
from urllib.parse import urlsplit

from streamling.dev.services.clickhouse_server import faults
from streamling.dev.services.clickhouse_server.compression import decompress
from streamling.dev.services.clickhouse_server.engine import Connection, Engine, quote
from streamling.dev.services.clickhouse_server.errors import ClickHouseError
from streamling.dev.services.clickhouse_server.execution import Execution
from streamling.dev.services.clickhouse_server.faults import Faults
from streamling.dev.services.clickhouse_server.request import Form, Request, is_form, parse_form
from streamling.dev.services.clickhouse_server.response import Dropped, Response
from streamling.dev.services.clickhouse_server.statement import Statement


class ChdbServer(ThreadingHTTPServer):
    """ClickHouse's HTTP interface for one user."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], engine: Engine, *, user: str, password: str) -> None:
        super().__init__(address, Handler)
        self.engine = engine
        self.sessions = Sessions(engine)
        self.faults = Faults()
        self._credentials = (user, password)

    def server_bind(self) -> None:
        """Bind without a look-up of the host's name, which may take seconds."""
        TCPServer.server_bind(self)

    def authenticate(self, request: Request) -> None:
        user, password = request.credentials()
        if (user, password) != self._credentials:
            raise ClickHouseError.of(
                516,
                "AUTHENTICATION_FAILED",
                f"{user}: Authentication failed: password is incorrect, or there is no user with such name.",
            )


# ── sessions: what lasts from one request to the next ────────────────────────────────────────────────────────────

_DEFAULT_SECONDS: Final = 60.0
_MAXIMUM_SECONDS: Final = 3600.0
#: a client that has read a response may send its next request before the session is released
_WAIT_SECONDS: Final = 0.3


class Session:
    """A connection whose settings and temporary tables last, unlike the settings and database of one request.

    The connection has one set of settings. So those of a request are applied to it, and taken back when the next
    request has others: most clients send the same ones every time.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        self.expires = time.monotonic() + _DEFAULT_SECONDS
        self._applied: dict[str, str] = {}
        self._own: dict[str, str | None] = {}
        self._own_database: str | None = None

    def apply(self, settings: Mapping[str, str], database: str) -> None:
        """Make the next statement run with the settings and in the database of its request."""
        if settings != self._applied:
            self._restore_settings()
            self._own = self._values(settings)
            self.connection.set(settings)
            self._applied = dict(settings)
        if self._own_database is not None and not database:
            self.connection.use(self._own_database)
            self._own_database = None
        if database:
            if self._own_database is None:
                self._own_database = self.connection.query("SELECT currentDatabase()", "TSVRaw")[0].decode().strip()
            self.connection.use(database)

    def _values(self, settings: Mapping[str, str]) -> dict[str, str | None]:
        """Return the session's own values; None for a default."""
        names = ", ".join(map(quote, settings)) or "''"
        rows, _ = self.connection.query(
            f"SELECT name, changed, value FROM system.settings WHERE name IN ({names})", "TSVRaw"
        )
        values: dict[str, str | None] = {}
        for row in rows.decode().splitlines():
            name, changed, value = row.split("\t", 2)
            values[name] = value if changed == "1" else None
        return values

    def _restore_settings(self) -> None:
        before, self._own, self._applied = self._own, {}, {}
        self.connection.set({name: value for name, value in before.items() if value is not None})
        self.connection.reset([name for name, value in before.items() if value is None])


class Sessions:
    """The sessions by the name that clients gave them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}

    @contextmanager
    def connection(self, request: Request, *, lasting_only: bool = False) -> Iterator[Connection]:
        """The connection for a request, with its settings and database: a new one unless it names a session.

        With ``lasting_only``, those of the request are left out, because its statement changes those of the session.
        """
        name = request.parameters.get("session_id")
        settings, database = ({}, "") if lasting_only else (request.settings, request.database)
        if not name:
            connection = self._engine.connect()
            try:
                if database:
                    connection.use(database)
                connection.set(settings)
                yield connection
            finally:
                connection.close()
            return
        session = self._acquire(name, request)
        try:
            session.apply(settings, database)
            yield session.connection
        finally:
            session.expires = time.monotonic() + _timeout(request)
            session.lock.release()

    def _acquire(self, name: str, request: Request) -> Session:
        while True:
            session = self._find(name, request)
            if not session.lock.acquire(timeout=_WAIT_SECONDS):
                raise ClickHouseError.of(373, "SESSION_IS_LOCKED", f"Session {name} is locked by a concurrent client.")
            if self._sessions.get(name) is session:  # it has not expired meanwhile
                return session
            session.lock.release()

    def _find(self, name: str, request: Request) -> Session:
        with self._lock:
            self._close_expired()
            if name not in self._sessions:
                if request.flag("session_check"):
                    raise ClickHouseError.of(372, "SESSION_NOT_FOUND", f"Session {name} not found.")
                self._sessions[name] = Session(self._engine.connect())
            return self._sessions[name]

    def _close_expired(self) -> None:
        now = time.monotonic()
        for name, session in list(self._sessions.items()):
            if session.expires < now and session.lock.acquire(blocking=False):
                del self._sessions[name]
                session.connection.close()
                session.lock.release()


def _timeout(request: Request) -> float:
    text = request.parameters.get("session_timeout", "")
    return min(float(text), _MAXIMUM_SECONDS) if text.isdecimal() else _DEFAULT_SECONDS


# ── one HTTP connection ──────────────────────────────────────────────────────────────────────────────────────────

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
