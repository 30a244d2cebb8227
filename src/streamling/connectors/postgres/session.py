"""One connection that is replaced when it breaks, grows old, or stops answering."""

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

#: The watchdog looks this many times per time limit: a limit is kept to within 10 %.
_LOOKS_PER_LIMIT: Final = 10


class ClientTimeout(TimeoutError):
    """The server did not answer within the client's own time limit."""


class Session:
    """Gives out a connection that accepts writes. Not for use by several threads at once."""

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
        #: whether the server has ever answered
        self.has_connected = False
        self._application_name = application_name
        self._connect_timeout = connect_timeout
        self._time_limit = time_limit
        self._idle_timeout = idle_timeout
        self._lifetime = lifetime
        self._now = now
        self._connection: psycopg.Connection | None = None
        self._made = self._used = 0.0
        self._watchdog: Watchdog | None = None

    def renew(self) -> None:
        """Let go of a connection that has had its time; called between transactions."""
        now = self._now()
        if now - self._made > self._lifetime or now - self._used > self._idle_timeout:
            self.discard()

    def connection(self) -> psycopg.Connection:
        """The connection, made when there is none."""
        now = self._now()
        if self._connection is None:
            self._connection = connect(
                self.server,
                application_name=self._application_name,
                connect_timeout=self._connect_timeout,
                silence_timeout=self._time_limit,
                # after a fail-over the old address may lead to a standby: libpq goes on to the next host, or fails
                target_session_attrs="read-write",
            )
            self._made, self.has_connected = now, True
        self._used = now
        return self._connection

    @contextmanager
    def answering(self) -> Iterator[psycopg.Connection]:
        """The connection, for one exchange with the server. When the server says nothing for the time limit, the
        exchange ends with `ClientTimeout`."""
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
                    f"no answer within the client's time limit of {self._time_limit:g} s; the connection was dropped"
                ) from error
            raise
        self._watchdog.release()

    def discard(self) -> None:
        """Close the connection; the next one asked for is new."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self.discard()
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None


class Watchdog:
    """Cuts a connection that has been watched for longer than the limit.

    Neither TCP keep-alive nor `tcp_user_timeout` notices a peer whose kernel answers while the server behind it is
    gone (a proxy, a frozen host), and psycopg waits without an end. Cutting the socket under it ends the wait.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._watched: psycopg.Connection | None = None
        self._since = 0.0
        self._cut = False
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="postgres watchdog", daemon=True).start()

    def watch(self, connection: psycopg.Connection) -> None:
        with self._lock:
            self._watched, self._since, self._cut = connection, time.monotonic(), False

    def release(self) -> bool:
        """End the watch; True when the connection was cut."""
        with self._lock:
            self._watched = None
            return self._cut

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._limit / _LOOKS_PER_LIMIT):
            with self._lock:
                if self._watched is not None and time.monotonic() - self._since > self._limit:
                    self._cut = True
                    _cut_off(self._watched)
                    self._watched = None


def _cut_off(connection: psycopg.Connection) -> None:
    with suppress(OSError, ValueError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)
