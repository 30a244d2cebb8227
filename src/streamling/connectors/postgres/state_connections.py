"""The connections of a process to a state database. All pipelines with equal settings use the same ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from streamling.connectors.postgres.connection import PostgresServer, connect
from streamling.connectors.postgres.state_locks import StateLocks

if TYPE_CHECKING:
    import psycopg

ResultT = TypeVar("ResultT")

#: connections for entries: checkpoints of several pipelines are stored side by side
_MOST: Final = 4


class StateConnections:
    """A few connections that read and write entries, opened when they are needed, and one that holds the locks.
    Thread-safe."""

    def __init__(self, server: PostgresServer, timeout: float) -> None:
        """``timeout`` limits, in seconds, the wait for a connection and every statement."""
        self.server = server
        self.locks = StateLocks(server, timeout)
        #: whether the server has ever responded
        self.has_connected = False
        self._timeout = timeout
        self._free = threading.BoundedSemaphore(_MOST)
        #: guards the two below
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection] = []
        self._is_closed = False

    def run(self, work: Callable[[psycopg.Connection], ResultT]) -> ResultT:
        """Run ``work`` in one transaction. It must be idempotent: if the connection has died while it was idle, it is
        run again on a new one."""
        with self._slot():
            if (connection := self._take_idle()) is not None:
                try:
                    return self._in_transaction(connection, work)
                except Exception:
                    if not connection.closed:
                        raise
                    self._close_idle()  # probably dead, too
            return self._in_transaction(self._connect(), work)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._close_idle()
        self.locks.close()

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if not self._free.acquire(timeout=self._timeout):
            raise TimeoutError(f"all connections were busy for {self._timeout:g} s")
        try:
            yield
        finally:
            self._free.release()

    def _in_transaction(self, connection: psycopg.Connection, work: Callable[[psycopg.Connection], ResultT]) -> ResultT:
        try:
            with connection.transaction():
                timeout = str(int(self._timeout * 1000))
                connection.execute("SELECT set_config('statement_timeout', %s, true)", (timeout,))
                return work(connection)
        finally:
            self._put_back(connection)

    def _connect(self) -> psycopg.Connection:
        connection = connect(
            self.server,
            application_name="streamling state",
            connect_timeout=self._timeout,
            # a server that disappears silently must not hang the shutdown
            silence_timeout=self._timeout,
        )
        self.has_connected = True
        return connection

    def _take_idle(self) -> psycopg.Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _put_back(self, connection: psycopg.Connection) -> None:
        with self._lock:
            is_kept = not connection.closed and not self._is_closed
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def _close_idle(self) -> None:
        while (connection := self._take_idle()) is not None:
            connection.close()
