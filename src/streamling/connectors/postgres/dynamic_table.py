"""A dynamic table in Postgres."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.connection_errors import connection_error
from streamling.connectors.postgres.dynamic_table_layout import DynamicTableLayout, exists, prepare
from streamling.connectors.postgres.session import Session
from streamling.connectors.postgres.transient_errors import first_line, is_transient
from streamling.errors import StreamlingError

if TYPE_CHECKING:
    import psycopg

ResultT = TypeVar("ResultT")

#: seconds after which the server gives up on a statement; the client gives up on the server after twice that time
_STATEMENT_TIMEOUT: Final = 30.0
_CONNECT_TIMEOUT: Final = 10.0
#: rows fetched at a time by the first load of a cache
_PAGE: Final = 1000
_NUL: Final = "\x00"

_ALL: Final = "SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
_KNOWN: Final = "SELECT {column} FROM {table} WHERE {column} = ANY (%s)"
# a user's own table may lack a unique index, so ON CONFLICT alone is not enough
_NEW: Final = (
    "FROM unnest(%s::text[]) AS new (value) "
    "WHERE NOT EXISTS (SELECT FROM {table} WHERE {column} = new.value) ON CONFLICT DO NOTHING"
)
_ADD: Final = "INSERT INTO {table} ({column}) SELECT new.value " + _NEW
_ADD_TIMED: Final = "INSERT INTO {table} ({column}, {time}) SELECT new.value, clock_timestamp() " + _NEW
#: writers of a cached table take turns, so that timestamps become visible in order
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext(%s))"

_REMEDIES: Final = {
    "42501": "GRANT the user what it needs on the schema and the table",
}


class Retries(Protocol):
    """Retries calls while a server is unavailable; implemented by the context of a node."""

    def retry(self, work: Callable[[], ResultT], /) -> ResultT:
        """Call ``work`` until it succeeds or fails permanently."""


class PostgresStore:
    """Connects on first use and retries transient errors."""

    durable = True

    def __init__(
        self,
        server: PostgresServer,
        layout: DynamicTableLayout,
        *,
        name: str,
        cached: bool,
        chunk: int,
        retries: Retries,
        connections: int = 1,
        creates_table: bool = True,
    ) -> None:
        """Without ``creates_table``, a table that does not exist is empty."""
        layout.check_names()
        self._creates_table = creates_table
        self.server = server
        self.layout = layout
        self.cached = cached
        self.chunk = chunk
        self._retries = retries
        self._session = Session(
            server,
            application_name=f"streamling {name}",
            connect_timeout=_CONNECT_TIMEOUT,
            time_limit=2 * _STATEMENT_TIMEOUT,
        )
        self._lock = threading.Lock()
        self._prepared = False
        #: further connections for look-ups of several chunks
        self.readers = [
            PostgresStore(server, layout, name=name, cached=cached, chunk=chunk, retries=retries)
            for _ in range(connections - 1)
        ]

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────

    def find_existing(self, values: Collection[str]) -> Set[str]:
        # Postgres cannot store a text with a NUL, so it cannot be in the table
        chunks = list(_chunks((value for value in values if _NUL not in value), self.chunk))
        if not chunks or not (self._creates_table or self._exists()):
            return set()
        if len(chunks) == 1 or not self.readers or not self._prepared:  # the first call prepares the table
            return self._find_in_chunks(chunks)
        stores = [self, *self.readers][: len(chunks)]
        shares = [chunks[number :: len(stores)] for number in range(len(stores))]
        with ThreadPoolExecutor(len(stores), thread_name_prefix="look-up") as pool:
            return set().union(*pool.map(PostgresStore._find_in_chunks, stores, shares))

    def _exists(self) -> bool:
        return self._run(lambda connection: exists(connection, self.layout), prepares=False)

    def _find_in_chunks(self, chunks: Sequence[Sequence[str]]) -> set[str]:
        query = self.layout.format_sql(_KNOWN)

        def find(connection: psycopg.Connection) -> set[str]:
            with _pipeline_mode(connection), self._transaction(connection):
                cursors = [connection.execute(query, (chunk,)) for chunk in chunks]
                return {value for cursor in cursors for (value,) in cursor.fetchall()}

        return self._run(find)

    def add(self, values: Collection[str]) -> None:
        if bad := next((value for value in values if _NUL in value), None):
            raise StreamlingError.user(
                f"the value {bad!r} for table {self.layout} contains a NUL character, which Postgres cannot store",
                remedy="filter it out in the WHERE clause of the table's `sql`",
            )
        statement = self.layout.format_sql(_ADD_TIMED if self.cached else _ADD)

        def append(connection: psycopg.Connection) -> None:
            with _pipeline_mode(connection), self._transaction(connection):
                if self.cached:
                    connection.execute(_LOCK, (str(self.layout),))
                # sorted, so that two writers take their row locks in the same order
                for chunk in _chunks(sorted(values), self.chunk):
                    connection.execute(statement, (chunk,))

        self._run(append)

    def take_new(self) -> None:
        return None

    # ── for the cache ────────────────────────────────────────────────────────────────────────────────────────

    def load(self) -> tuple[Iterable[str], Any]:
        def read(connection: psycopg.Connection) -> tuple[list[str], Any]:
            with self._transaction(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"):
                newest = self._newest(connection)
                with connection.cursor("streamling_load") as cursor:
                    cursor.itersize = _PAGE
                    cursor.execute(self.layout.format_sql(_ALL))
                    return [value for (value,) in cursor], newest

        return self._run(read)

    def newest(self) -> Any:
        return self._run(self._newest)

    def since(self, moment: Any) -> Iterable[str]:
        newer = "" if moment is None else " AND {time} >= %(moment)s"
        query = self.layout.format_sql(_ALL + newer)
        return self._run(lambda c: [value for (value,) in c.execute(query, {"moment": moment}).fetchall()])

    def _newest(self, connection: psycopg.Connection) -> Any:
        row = connection.execute(self.layout.format_sql("SELECT max({time}) FROM {table}")).fetchone()
        return row[0] if row else None

    # ── connection ──────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        with self._lock:
            self._session.close()

    def _run(self, work: Callable[[psycopg.Connection], ResultT], *, prepares: bool = True) -> ResultT:
        def attempt() -> ResultT:
            with self._lock:
                try:
                    with self._session.exchange() as connection:
                        if prepares and not self._prepared:
                            prepare(connection, self.layout, cached=self.cached)
                            self._prepared = True
                        return work(connection)
                except Exception as error:
                    self._session.discard()
                    raise self._translate_error(error) from None

        return self._retries.retry(attempt)

    @contextmanager
    def _transaction(self, connection: psycopg.Connection, *first: str) -> Iterator[None]:
        with connection.transaction():
            for statement in first:
                connection.execute(statement)
            milliseconds = str(int(_STATEMENT_TIMEOUT * 1000))
            connection.execute("SELECT set_config('statement_timeout', %s, true)", (milliseconds,))
            yield

    def _translate_error(self, error: Exception) -> StreamlingError:
        import psycopg

        where = f"table {self.layout} at {self.server}"
        if isinstance(error, StreamlingError):
            return error
        if (
            connection_failure := connection_error(error, self.server, connected=self._session.has_connected)
        ) is not None:
            return connection_failure
        if is_transient(error):
            return StreamlingError.transient(f"{where}: {first_line(error)}")
        if not isinstance(error, psycopg.Error):
            return StreamlingError(f"{where} cannot be used", cause=error)
        state = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
        text = error.diag.message_primary or first_line(error)
        return StreamlingError.user(f"{where}: {text}{state}", remedy=_REMEDIES.get(error.sqlstate or ""))


def _pipeline_mode(connection: psycopg.Connection) -> Any:
    """Send all statements before waiting for the first result, if the client library supports it."""
    import psycopg

    return connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()


def _chunks(values: Iterable[str], size: int) -> Iterator[Sequence[str]]:
    left = iter(values)
    while chunk := list(islice(left, size)):
        yield chunk
