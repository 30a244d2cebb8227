"""A connection that is replaced when it breaks, expires, or stops responding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamling.connectors.postgres.connection import PostgresServer, connect
from streamling.connectors.postgres.watchdog import Watchdog
from streamling.plugins.shared import SharedResources

if TYPE_CHECKING:
    import psycopg


class ClientTimeout(TimeoutError):
    """The server did not respond within the client's own time limit."""


class Session:
    """Provides a connection that accepts writes. Not thread-safe."""

    def __init__(
        self,
        server: PostgresServer,
        *,
        application_name: str,
        connect_timeout: float,
        time_limit: float = 0,
        idle_timeout: float = float("inf"),
        lifetime: float = float("inf"),
        now: Callable[[], float] = time.monotonic,
        shared: SharedResources | None = None,
    ) -> None:
        """Sessions with the same ``shared`` have one watchdog."""
        self.server = server
        #: whether the server has ever responded
        self.has_connected = False
        self._application_name = application_name
        self.connect_timeout = connect_timeout
        self.time_limit = time_limit
        self.idle_timeout = idle_timeout
        self.lifetime = lifetime
        self._now = now
        self._connection: psycopg.Connection | None = None
        self._connected_at = self._used_at = 0.0
        self._shared = shared or SharedResources()
        self._watchdog: Watchdog | None = None

    def renew(self) -> None:
        """Close a connection that has expired; called between transactions."""
        now = self._now()
        if now - self._connected_at > self.lifetime or now - self._used_at > self.idle_timeout:
            self.discard()

    def connection(self) -> psycopg.Connection:
        """Return the connection; connect if there is none."""
        now = self._now()
        if self._connection is None:
            self._connection = connect(
                self.server,
                application_name=self._application_name,
                connect_timeout=self.connect_timeout,
                silence_timeout=self.time_limit,
                # after a failover the old address may lead to a standby: libpq then tries the next host, or fails
                target_session_attrs="read-write",
            )
            self._connected_at, self.has_connected = now, True
        self._used_at = now
        return self._connection

    @contextmanager
    def exchange(self) -> Iterator[psycopg.Connection]:
        """Return the connection for one exchange with the server. If the server does not respond within the time limit,
        the exchange fails with `ClientTimeout`."""
        connection = self.connection()
        if not self.time_limit:
            yield connection
            return
        if self._watchdog is None:
            self._watchdog = self._shared.acquire(Watchdog, Watchdog)
        self._watchdog.watch(connection, self.time_limit)
        try:
            yield connection
        except Exception as error:
            if self._watchdog.release(connection):
                raise ClientTimeout(
                    f"no response within the client's time limit of {self.time_limit:g} s; the connection was closed"
                ) from error
            raise
        self._watchdog.release(connection)

    def discard(self) -> None:
        """Close the connection; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self.discard()
        if self._watchdog is not None:
            self._shared.release(self._watchdog)
            self._watchdog = None
