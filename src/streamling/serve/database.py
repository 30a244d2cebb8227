"""The database of the catalogue: that of the state backend, with tables of its own.

Both implementations run the same statements: ``%s`` stands for a value, a name in braces such as ``{pipelines}`` for
one of the tables.
One server at a time uses a catalogue; the lock ends with the process.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, Protocol

from streamling.connectors.postgres.config import PostgresState
from streamling.engine.run.config import StateConfig
from streamling.engine.state.ownership import lock_state
from streamling.errors import StreamlingError
from streamling.network.policy import ANY_ADDRESS
from streamling.pipeline.config import AppConfig

if TYPE_CHECKING:
    import psycopg

#: runs a statement and returns its rows
Execute = Callable[[LiteralString, Sequence[Any]], list[tuple[Any, ...]]]

#: the owner of the catalogue in locks of the state backend
IDENTITY = "streamling.serve"
_BUSY_SECONDS = 5.0
_PIPELINES = "serve_pipelines"
_AUDIT = "serve_audit"
#: one row, which is written to see whether that is possible
_CHECK = "serve_check"
_CHECK_STATEMENT: LiteralString = (
    "INSERT INTO {check} (id, at) VALUES (1, %s) ON CONFLICT (id) DO UPDATE SET at = excluded.at"
)
#: less than this on the disk of a SQLite file is not enough for one change
_FREE_BYTES = 2 * 2**20


class Database(Protocol):
    """Where the catalogue is stored."""

    def transaction(self) -> AbstractContextManager[Execute]:
        """A transaction that is durable when the block has ended; rolled back if the block raises."""

    def reading(self) -> AbstractContextManager[Execute]:
        """A transaction that only reads."""

    def check_writable(self) -> None:
        """Raise if nothing can be stored now."""

    def close(self) -> None: ...


def open_database(config: AppConfig) -> Database:
    """The database of the state backend; the tables are created if they do not exist."""
    settings, timeout = config.part(StateConfig).state_backend, config.part(StateConfig).state_acquire_timeout
    if settings.backend_type == "Postgres" and settings.postgres is not None:
        return PostgresDatabase(settings.postgres, timeout)
    is_file = settings.backend_type == "Sqlite" and settings.sqlite is not None
    return SqliteDatabase(settings.sqlite.database_path if is_file and settings.sqlite is not None else None)


class SqliteDatabase:
    """A SQLite file; without a path, in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._resources = ExitStack()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._resources.enter_context(lock_state(path, IDENTITY))
        with self._errors():
            self._connection = sqlite3.connect(
                path or ":memory:", timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_PIPELINES} (namespace TEXT, name TEXT, generation INTEGER NOT NULL, "
                "data TEXT NOT NULL, PRIMARY KEY (namespace, name))"
            )
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_AUDIT} (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, "
                "actor TEXT NOT NULL, action TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, "
                "generation INTEGER, detail TEXT NOT NULL)"
            )
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {_CHECK} (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        with self._errors(), self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield partial(_execute, self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        if self._path is None:
            with self.transaction() as execute:
                yield execute
            return
        # another connection: this one may be waiting for a lock of somebody who writes, which readers do not need
        with self._errors(), closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
            yield partial(_execute, reader)

    def check_writable(self) -> None:
        if self._path is not None and (free := shutil.disk_usage(self._path.parent).free) < _FREE_BYTES:
            raise StreamlingError(f"the disk of {self._path} has {free // 1024} KiB left", retriable=True)
        with self.transaction() as execute:
            execute(_CHECK_STATEMENT, (str(time.time()),))

    def close(self) -> None:
        with self._lock:
            self._connection.close()
        self._resources.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StreamlingError(
                f"the catalogue in {self._path or 'memory'} cannot be used: {error}",
                retriable=isinstance(error, sqlite3.OperationalError),
            ) from None


def _execute(
    connection: sqlite3.Connection, statement: LiteralString, values: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    text = statement.format(pipelines=_PIPELINES, audit=_AUDIT, check=_CHECK).replace("%s", "?")
    return connection.execute(text, values).fetchall()


class PostgresDatabase:
    """Tables in the schema of the state."""

    def __init__(self, settings: PostgresState, timeout: float) -> None:
        from streamling.connectors.postgres.connection import Server
        from streamling.connectors.postgres.state import PostgresState as State

        self._settings = settings
        self._timeout = timeout
        self._server = Server.of(settings, "state_backend.postgres", ANY_ADDRESS)
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None
        State(IDENTITY, settings, acquire_timeout=timeout).close()  # creates the schema
        self._ownership = State.ownership(settings, IDENTITY, timeout, exclusive=True)
        try:
            self._create_tables()
        except BaseException:
            self.close()
            raise

    def _create_tables(self) -> None:
        with self.transaction() as execute:
            execute(
                "CREATE TABLE IF NOT EXISTS {pipelines} (namespace TEXT, name TEXT, generation BIGINT NOT NULL, "
                "data TEXT NOT NULL, PRIMARY KEY (namespace, name))",
                (),
            )
            execute(
                "CREATE TABLE IF NOT EXISTS {audit} (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                "at TEXT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, namespace TEXT NOT NULL, "
                "name TEXT NOT NULL, generation BIGINT, detail TEXT NOT NULL)",
                (),
            )
            execute("CREATE TABLE IF NOT EXISTS {check} (id INTEGER PRIMARY KEY, at TEXT NOT NULL)", ())

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
            execute(_CHECK_STATEMENT, (str(time.time()),))

    def _execute(
        self, connection: psycopg.Connection, statement: LiteralString, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        from psycopg import sql

        schema = self._settings.state_schema_name
        names = {"pipelines": _PIPELINES, "audit": _AUDIT, "check": _CHECK}
        tables = {placeholder: sql.Identifier(schema, name) for placeholder, name in names.items()}
        cursor = connection.execute(sql.SQL(statement).format(**tables), values)
        return cursor.fetchall() if cursor.description is not None else []

    def close(self) -> None:
        with self._lock:
            self._disconnect()
        self._ownership.close()

    def _connected(self) -> psycopg.Connection:
        from streamling.connectors.postgres.connection import connect

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

        from streamling.connectors.postgres.transient_errors import first_line, is_transient

        try:
            yield
        except psycopg.Error as error:
            raise StreamlingError(
                f"the catalogue in {self._settings.state_schema_name} at {self._server} cannot be used: "
                f"{first_line(error)}",
                retriable=is_transient(error),
            ) from None
