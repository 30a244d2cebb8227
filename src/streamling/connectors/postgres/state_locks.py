"""Advisory locks in Postgres, all held by one connection of this process.

The locks are session-level locks inside a transaction that stays open. They end with the connection, however the
process ends, and poolers in transaction mode do not reassign the connection while the transaction is open. A lock of
the transaction itself could not be released before the others.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from streamling.connectors.postgres.connection import PostgresServer, connect

if TYPE_CHECKING:
    import psycopg

#: Postgres truncates longer application names
_LONGEST_NAME: Final = 63
#: The transaction may stay idle indefinitely, and a machine that disappears silently is detected within a minute
#: instead of two hours.
_SETTINGS: Final = {
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "5000",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}


@dataclass(frozen=True)
class Holder:
    """A connection that holds a lock."""

    application_name: str
    #: None: it is another pipeline of this process
    address: str | None

    def __str__(self) -> str:
        _, at, who = self.application_name.partition("streamling state of ")
        name = who.rpartition(" ")[0] if at else f"a process called '{self.application_name or '?'}'"
        return name if self.address is None else f"{name}, connected from {self.address}"


@dataclass
class _Held:
    exclusive: bool
    users: int
    #: the connection that holds it
    connection: int


class StateLocks:
    """Locks by number. Thread-safe. Errors are those of psycopg; after one, the locks have to be verified again."""

    def __init__(self, server: PostgresServer, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        who = f"streamling state of process {os.getpid()} on {socket.gethostname()}"
        #: the name of the connection
        self.name = f"{who[: _LONGEST_NAME - 9]} {uuid4().hex[:8]}"
        #: whether the server has ever responded
        self.has_connected = False
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None
        #: connections opened so far
        self._connections = 0
        self._held: dict[int, _Held] = {}

    def try_acquire(self, key: int, *, exclusive: bool) -> Holder | None:
        """Acquire a lock for one more user; return the holder if that fails. Without ``exclusive`` others may share the
        lock, unless they require it exclusively."""
        with self._lock:
            held = self._held.get(key)
            if held is not None and (exclusive or held.exclusive):
                return Holder(self.name, None)
            if holder := self._hold(key, exclusive):
                return holder
            self._held[key].users += 1
            return None

    def try_verify(self, key: int) -> Holder | None:
        """Make sure that a lock is still held, and acquire it again if the connection broke; return the holder if that
        fails."""
        import psycopg

        with self._lock:
            if self._connection is not None:
                try:
                    self._connection.execute("SELECT 1")
                except psycopg.Error:
                    self._disconnect()
            return self._hold(key, self._held[key].exclusive)

    def release(self, key: int) -> None:
        """Release the lock of one user."""
        import psycopg

        with self._lock:
            held = self._held[key]
            held.users -= 1
            if held.users:
                return
            del self._held[key]
            if self._connection is None or held.connection != self._connections:
                return
            function = "pg_advisory_unlock" if held.exclusive else "pg_advisory_unlock_shared"
            try:
                self._connection.execute(f"SELECT {function}(%s)", (key,))
            except psycopg.Error:
                self._disconnect()

    def close(self) -> None:
        """Release all locks."""
        with self._lock:
            self._disconnect()

    def _hold(self, key: int, exclusive: bool) -> Holder | None:
        """Lock ``key`` unless the connection already holds it; return the holder if that fails."""
        connection = self._connected()
        held = self._held.get(key)
        if held is not None and held.connection == self._connections:
            return None
        function = "pg_try_advisory_lock" if exclusive else "pg_try_advisory_lock_shared"
        try:
            row = connection.execute(f"SELECT {function}(%s)", (key,)).fetchone()
            if row is None or not row[0]:
                return _find_holder(connection, key)
        except BaseException:
            self._disconnect()
            raise
        self._held[key] = _Held(exclusive, held.users if held is not None else 0, self._connections)
        return None

    def _connected(self) -> psycopg.Connection:
        if self._connection is None:
            connection = connect(
                self._server,
                application_name=self.name,
                connect_timeout=self._timeout,
                silence_timeout=self._timeout,
            )
            try:
                connection.execute("BEGIN READ ONLY")
                for name, value in _SETTINGS.items():
                    connection.execute("SELECT set_config(%s, %s, true)", (name, value))
            except BaseException:
                connection.close()
                raise
            self._connection, self.has_connected = connection, True
            self._connections += 1
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _find_holder(connection: psycopg.Connection, key: int) -> Holder:
    """Find the process that holds a lock. The server shows the halves of the key as unsigned numbers."""
    high, low = divmod(key % 2**64, 2**32)
    row = connection.execute(
        "SELECT application_name, coalesce(host(client_addr), 'this machine') "
        "FROM pg_locks JOIN pg_stat_activity USING (pid) "
        "WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = %s::oid AND objid = %s::oid "
        "ORDER BY backend_start LIMIT 1",
        (str(high), str(low)),
    ).fetchone()
    return Holder(str(row[0] or ""), str(row[1])) if row is not None else Holder("", "?")
