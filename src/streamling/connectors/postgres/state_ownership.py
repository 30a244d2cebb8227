"""Locks the state of a pipeline in Postgres: for one process alone, or shared by several instances."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Final

from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.connection_errors import connection_error
from streamling.connectors.postgres.state_locks import Holder, StateLocks
from streamling.connectors.postgres.transient_errors import first_line, is_transient
from streamling.errors import StreamlingError

#: number of attempts and seconds between them: a process that was just killed may still hold the lock
_ATTEMPTS: Final = 5
_ATTEMPT_INTERVAL: Final = 0.3


class PostgresOwnership:
    """The lock on the entries of ``identity``. Not thread-safe."""

    def __init__(
        self,
        locks: StateLocks,
        server: PostgresServer,
        table: str,
        identity: str,
        *,
        exclusive: bool,
        on_close: Callable[[], object],
    ) -> None:
        """Without ``exclusive`` others may share the lock, unless they require it exclusively. ``on_close`` is called
        when the lock has been released."""
        self._locks = locks
        self._server = server
        self._table = table
        self._identity = identity
        self._exclusive = exclusive
        self._on_close = on_close
        digest = hashlib.sha256(f"streamling state\0{table}\0{identity}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        self._is_held = self._is_closed = False

    def acquire(self) -> None:
        """Acquire the lock, or raise with the name of the process that holds it."""
        self._retry(lambda: self._locks.try_acquire(self._key, exclusive=self._exclusive))
        self._is_held = True

    def verify(self) -> None:
        """Make sure that we still hold the lock; acquire it again if the connection broke."""
        if self._is_held:
            self._retry(lambda: self._locks.try_verify(self._key))
        else:
            self.acquire()

    def close(self) -> None:
        """Release the lock."""
        if self._is_held:
            self._is_held = False
            self._locks.release(self._key)
        if not self._is_closed:
            self._is_closed = True
            self._on_close()

    def _retry(self, attempt: Callable[[], Holder | None]) -> None:
        import psycopg

        holder: Holder | None = None
        for number in range(_ATTEMPTS):
            if number:
                time.sleep(_ATTEMPT_INTERVAL)
            try:
                holder = attempt()
            except psycopg.Error as error:
                raise self._translate_error(error) from None
            if holder is None:
                return
        assert holder is not None
        # our own old connection, which the server has not closed yet
        if holder.application_name == self._locks.name and holder.address is not None:
            raise StreamlingError.transient(f"the state of '{self._identity}' is locked by a connection that broke")
        raise StreamlingError.user(
            f"the state of '{self._identity}' in {self._table} at {self._server} is in use by {holder}",
            remedy="stop that process first; give each pipeline that shares a state table its own application_id; "
            "only pipelines that read exclusively from Kafka can run as several instances",
        )

    def _translate_error(self, error: Exception) -> StreamlingError:
        connection_failure = connection_error(error, self._server, connected=self._locks.has_connected)
        if connection_failure is not None:
            return connection_failure.context("state backend")
        text = f"the state of '{self._identity}' at {self._server} cannot be locked: {first_line(error)}"
        return StreamlingError(text, retriable=is_transient(error))
