"""Locks the state of a pipeline in Postgres: for one process alone, or shared by several instances.

The lock is a transaction-level advisory lock, held by a transaction that stays open on its own connection. It ends with
the connection, however the process ends, and poolers in transaction mode do not reassign the connection while the
transaction is open.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from streamling.connectors.postgres.connection import Server, connect
from streamling.connectors.postgres.connection_errors import connection_error
from streamling.connectors.postgres.transient_errors import first_line, is_transient
from streamling.errors import StreamlingError

if TYPE_CHECKING:
    import psycopg

#: number of attempts and seconds between them: a process that was just killed may still hold the lock
_ATTEMPTS: Final = 5
_ATTEMPT_INTERVAL: Final = 0.3
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
class _Holder:
    application_name: str
    address: str

    def __str__(self) -> str:
        _, at, who = self.application_name.partition("streamling state of ")
        name = who.rpartition(" ")[0] if at else f"a process called '{self.application_name or '?'}'"
        return f"{name}, connected from {self.address}"


class PostgresOwnership:
    """The lock on the entries of ``identity``. Not thread-safe."""

    def __init__(self, server: Server, table: str, identity: str, *, exclusive: bool, timeout: float) -> None:
        """Without ``exclusive`` others may share the lock, unless they require it exclusively."""
        self._server = server
        self._table = table
        self._identity = identity
        self._exclusive = exclusive
        self._timeout = timeout
        digest = hashlib.sha256(f"streamling state\0{table}\0{identity}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        who = f"streamling state of process {os.getpid()} on {socket.gethostname()}"
        self._name = f"{who[: _LONGEST_NAME - 9]} {uuid4().hex[:8]}"
        self._connection: psycopg.Connection | None = None
        self._has_connected = False

    def acquire(self) -> None:
        """Acquire the lock, or raise with the name of the process that holds it."""
        holder: _Holder | None = None
        for _ in range(_ATTEMPTS):
            holder = self._try_acquire()
            if holder is None:
                return
            time.sleep(_ATTEMPT_INTERVAL)
        assert holder is not None
        if holder.application_name == self._name:  # our own old connection, which the server has not closed yet
            raise StreamlingError.transient(f"the state of '{self._identity}' is locked by a connection that broke")
        raise StreamlingError.user(
            f"the state of '{self._identity}' in {self._table} at {self._server} is in use by {holder}",
            remedy="stop that process first; give each pipeline that shares a state table its own application_id; "
            "only pipelines that read exclusively from Kafka can run as several instances",
        )

    def verify(self) -> None:
        """Make sure that we still hold the lock; acquire it again if the connection broke."""
        import psycopg

        if self._connection is not None:
            try:
                self._connection.execute("SELECT 1")
                return
            except psycopg.Error:
                self.close()
        self.acquire()

    def close(self) -> None:
        """Release the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _try_acquire(self) -> _Holder | None:
        """Try to acquire the lock; return the holder if that fails."""
        import psycopg

        try:
            connection = connect(
                self._server,
                application_name=self._name,
                connect_timeout=self._timeout,
                silence_timeout=self._timeout,
            )
            self._has_connected = True
            try:
                holder = self._try_lock(connection)
            except BaseException:
                connection.close()
                raise
        except psycopg.Error as error:
            raise self._translate_error(error) from None
        if holder is None:
            self._connection = connection
        else:
            connection.close()
        return holder

    def _try_lock(self, connection: psycopg.Connection) -> _Holder | None:
        connection.execute("BEGIN READ ONLY")
        for name, value in _SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        function = "pg_try_advisory_xact_lock" if self._exclusive else "pg_try_advisory_xact_lock_shared"
        row = connection.execute(f"SELECT {function}(%s)", (self._key,)).fetchone()
        return None if row is not None and row[0] else self._find_holder(connection)

    def _find_holder(self, connection: psycopg.Connection) -> _Holder:
        """Find the process that holds the lock. The server shows the halves of the key as unsigned numbers."""
        high, low = divmod(self._key % 2**64, 2**32)
        row = connection.execute(
            "SELECT application_name, coalesce(host(client_addr), 'this machine') "
            "FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = %s::oid AND objid = %s::oid "
            "ORDER BY backend_start LIMIT 1",
            (str(high), str(low)),
        ).fetchone()
        return _Holder(str(row[0] or ""), str(row[1])) if row is not None else _Holder("", "?")

    def _translate_error(self, error: psycopg.Error) -> StreamlingError:
        connection_failure = connection_error(error, self._server, connected=self._has_connected)
        if connection_failure is not None:
            return connection_failure.context("state backend")
        text = f"the state of '{self._identity}' at {self._server} cannot be locked: {first_line(error)}"
        return StreamlingError(text, retriable=is_transient(error))
