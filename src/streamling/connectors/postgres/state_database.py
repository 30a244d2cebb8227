"""Tables next to the state in Postgres. One process at a time uses them; the lock ends with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

from streamling.connectors.postgres.connection import PostgresServer, connect
from streamling.connectors.postgres.state_ownership import PostgresOwnership
from streamling.connectors.postgres.transient_errors import first_line, is_transient
from streamling.errors import StreamlingError
from streamling.plugins.state_backend import CHECK_STATEMENT, CHECK_TABLE, Execute

if TYPE_CHECKING:
    import psycopg


class PostgresDatabase:
    """Tables in the schema of the state."""

    def __init__(
        self,
        server: PostgresServer,
        schema: str,
        ownership: PostgresOwnership,
        timeout: float,
        prefix: str,
        tables: Mapping[LiteralString, LiteralString],
    ) -> None:
        """The schema exists; ``ownership`` is acquired here and closed with the database."""
        self._server = server
        self._schema = schema
        self._ownership = ownership
        self._timeout = timeout
        self._tables = {name: f"{prefix}_{name}" for name in (*tables, *CHECK_TABLE)}
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None
        try:
            with self.transaction() as execute:
                for name, columns in {**tables, **CHECK_TABLE}.items():
                    execute("CREATE TABLE IF NOT EXISTS {" + name + "} (" + columns + ")", ())
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        with self._errors(), self._lock:
            self._ownership.verify()  # acquires the lock the first time
            connection = self._connected()
            try:
                with connection.transaction():
                    yield lambda statement, values: self._execute(connection, statement, values)
            finally:
                if connection.broken:
                    self._disconnect()

    def reading(self) -> AbstractContextManager[Execute]:
        return self.transaction()

    def check_writable(self) -> None:
        with self.transaction() as execute:
            execute(CHECK_STATEMENT, (str(time.time()),))

    def _execute(
        self, connection: psycopg.Connection, statement: LiteralString, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        from psycopg import sql

        tables = {placeholder: sql.Identifier(self._schema, name) for placeholder, name in self._tables.items()}
        serial = sql.SQL("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
        cursor = connection.execute(sql.SQL(statement).format(**tables, serial=serial), values)
        return cursor.fetchall() if cursor.description is not None else []

    def close(self) -> None:
        with self._lock:
            self._disconnect()
        self._ownership.close()

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(
                self._server,
                application_name="streamling serve",
                connect_timeout=self._timeout,
                silence_timeout=self._timeout,
            )
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise StreamlingError(
                f"the catalogue in {self._schema} at {self._server} cannot be used: {first_line(error)}",
                retriable=is_transient(error),
            ) from None
