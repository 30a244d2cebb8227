"""The server: a thread per connection, one engine for all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import Final

from streamling.dev.services.clickhouse_server.engine import Connection, Engine, quote
from streamling.dev.services.clickhouse_server.errors import ClickHouseError
from streamling.dev.services.clickhouse_server.faults import Faults
from streamling.dev.services.clickhouse_server.handler import Handler
from streamling.dev.services.clickhouse_server.request import Request


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
        """Without a look-up of the host's name, which may take seconds."""
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
