"""A connection that is replaced when it breaks, expires, or stops responding."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from streamling.connectors.postgres.connection import Server, connect

if TYPE_CHECKING:
    import psycopg

#: The watchdog checks this many times per time limit, so a limit is accurate to within 10 %.
_CHECKS_PER_LIMIT: Final = 10


class ClientTimeout(TimeoutError):
    """The server did not respond within the client's own time limit."""


class Session:
    """Provides a connection that accepts writes. Not thread-safe."""

    def __init__(
        self,
        server: Server,
        *,
        application_name: str,
        connect_timeout: float,
        time_limit: float = 0,
        idle_timeout: float = float("inf"),
        lifetime: float = float("inf"),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server
        #: whether the server has ever responded
        self.has_connected = False
        self._application_name = application_name
        self._connect_timeout = connect_timeout
        self._time_limit = time_limit
        self._idle_timeout = idle_timeout
        self._lifetime = lifetime
        self._now = now
        self._connection: psycopg.Connection | None = None
        self._connected_at = self._used_at = 0.0
        self._watchdog: Watchdog | None = None

    def renew(self) -> None:
        """Close a connection that has expired; called between transactions."""
        now = self._now()
        if now - self._connected_at > self._lifetime or now - self._used_at > self._idle_timeout:
            self.discard()

    def connection(self) -> psycopg.Connection:
        """Return the connection; connect if there is none."""
        now = self._now()
        if self._connection is None:
            self._connection = connect(
                self.server,
                application_name=self._application_name,
                connect_timeout=self._connect_timeout,
                silence_timeout=self._time_limit,
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
        if not self._time_limit:
            yield connection
            return
        if self._watchdog is None:
            self._watchdog = Watchdog(self._time_limit)
        self._watchdog.watch(connection)
        try:
            yield connection
        except Exception as error:
            if self._watchdog.release():
                raise ClientTimeout(
                    f"no response within the client's time limit of {self._time_limit:g} s; the connection was closed"
                ) from error
            raise
        self._watchdog.release()

    def discard(self) -> None:
        """Close the connection; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self.discard()
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None


class Watchdog:
    """Shuts down a connection that has been watched for longer than the limit.

    Neither TCP keep-alive nor `tcp_user_timeout` detects a peer whose kernel responds while the server behind it does
    not (a proxy, a frozen host), and psycopg waits forever. Shutting down its socket ends the wait.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._watched: psycopg.Connection | None = None
        self._since = 0.0
        self._shut_down = False
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="postgres watchdog", daemon=True).start()

    def watch(self, connection: psycopg.Connection) -> None:
        with self._lock:
            self._watched, self._since, self._shut_down = connection, time.monotonic(), False

    def release(self) -> bool:
        """End the watch; return True if the connection was shut down."""
        with self._lock:
            self._watched = None
            return self._shut_down

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._limit / _CHECKS_PER_LIMIT):
            with self._lock:
                if self._watched is not None and time.monotonic() - self._since > self._limit:
                    self._shut_down = True
                    _shut_down_socket(self._watched)
                    self._watched = None


def _shut_down_socket(connection: psycopg.Connection) -> None:
    with suppress(OSError, ValueError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)
