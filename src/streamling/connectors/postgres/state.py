"""State in a Postgres table: for deployments whose disks do not outlive the process, and for several instances.

**Claims.** An instance that takes over a key (the position of a partition) first claims it: it writes its own id under
``<key>:owner`` and reads the entry, in one transaction. A write to a claimed key locks that row and compares the id. So
an instance that hung or was cut off while another one took over cannot restore an old position, and the new owner never
misses a position that was stored a moment before. The last instance to claim is the owner; claims are never released
and do not expire.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString, TypeVar
from uuid import uuid4

from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.connection_errors import connection_error
from streamling.connectors.postgres.state_connections import StateConnections
from streamling.connectors.postgres.state_database import PostgresDatabase
from streamling.connectors.postgres.state_ownership import PostgresOwnership
from streamling.connectors.postgres.transient_errors import first_line, is_transient
from streamling.errors import StreamlingError
from streamling.network.policy import ANY_ADDRESS
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.shared import SharedResources
from streamling.plugins.state_backend import (
    FencedError,
    StateBackend,
    StateStore,
    check_not_older,
    checked_identifier,
    encoded,
    offsets_in,
)

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

ResultT = TypeVar("ResultT")

_OWNER = ":owner"
_SECTION = "state_backend.postgres"


class PostgresState(StateBackend):
    """Entries of one namespace in a Postgres table. Schema and table are created if missing, unless ``create`` is
    false: then only `exists` may be called until they exist."""

    is_shared: ClassVar[bool] = True

    def __init__(
        self,
        namespace: str,
        settings: PostgresStateSettings,
        *,
        acquire_timeout: float = 5.0,
        create: bool = True,
        shared: SharedResources | None = None,
    ) -> None:
        """States with the same ``shared`` and equal settings use the same connections."""
        from psycopg import sql

        self._namespace = namespace
        self._settings = settings
        #: our id in claims, and all keys that we have claimed
        self._instance = uuid4().hex
        self._claimed: frozenset[str] = frozenset()
        self._server = PostgresServer.of(settings, _SECTION, ANY_ADDRESS)
        self._ownership: PostgresOwnership | None = None
        self._is_exclusive = False
        self._schema = checked_identifier(settings.state_schema_name, "state_backend.postgres.state_schema_name")
        table = checked_identifier(settings.state_table_name, "state_backend.postgres.state_table_name")
        self._table = sql.Identifier(self._schema, table)
        self._shared = shared or SharedResources()
        self._connections = _connections(self._shared, self._server, acquire_timeout)
        self._is_closed = False
        if create:
            try:
                self._run("be prepared", self._create)
            except BaseException:
                self.close()
                raise

    def exists(self) -> bool:
        """Return whether the table exists."""
        return self._run("be found", self._table_exists)

    # ── entries ─────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, key: str) -> Any | None:
        query = self._sql("SELECT data FROM {table} WHERE namespace = %s AND key = %s")
        row = self._run("be read", lambda c: c.execute(query, (self._namespace, key)).fetchone())
        return None if row is None else row[0]

    def get_prefix(self, prefix: str) -> dict[str, Any]:
        # COLLATE "C": the same key order in every database
        query = self._sql(
            'SELECT key, data FROM {table} WHERE namespace = %s AND starts_with(key, %s) ORDER BY key COLLATE "C"'
        )
        return dict(self._run("be read", lambda c: c.execute(query, (self._namespace, prefix)).fetchall()))

    def put_many(self, entries: Mapping[str, Any]) -> None:
        self._put(entries, ())

    def put_positions(self, entries: Mapping[str, Any]) -> None:
        if self._ownership is not None:
            self._ownership.verify()
        self._put(entries, offsets_in(entries))

    def _put(self, entries: Mapping[str, Any], forward: Collection[str]) -> None:
        """Store ``entries``; the offsets under the keys ``forward`` must not move backwards."""
        texts, removals = encoded(entries)
        # sorted, so that two writers take their row locks in the same order
        keys = sorted(texts)

        def write(connection: psycopg.Connection) -> None:
            self._check_owned(connection, self._claimed.intersection(entries))
            if forward:
                query = self._sql(
                    "SELECT key, data FROM {table} WHERE namespace = %s AND key = ANY(%s) ORDER BY key FOR UPDATE"
                )
                check_not_older(dict(connection.execute(query, (self._namespace, list(forward))).fetchall()), entries)
            if keys:
                self._upsert(connection, {key: texts[key] for key in keys}, "DO UPDATE SET data = excluded.data")
            if removals:
                connection.execute(
                    self._sql("DELETE FROM {table} WHERE namespace = %s AND key = ANY(%s)"),
                    (self._namespace, removals),
                )

        self._run("be written", write)

    def put_if_absent(self, entries: Mapping[str, Any]) -> None:
        texts, _ = encoded(entries)
        self._run("be written", lambda c: self._upsert(c, dict(sorted(texts.items())), "DO NOTHING"))

    def clear(self) -> None:
        query = self._sql("DELETE FROM {table} WHERE namespace = %s")
        self._run("be written", lambda c: c.execute(query, (self._namespace,)))

    def close(self) -> None:
        if self._ownership is not None:
            self._ownership.close()
        if not self._is_closed:
            self._is_closed = True
            self._shared.release(self._connections)

    def lock(self, *, exclusive: bool) -> None:
        """Lock the entries until `close`: against all other processes if ``exclusive``, otherwise against those that
        lock them exclusively."""
        self._ownership = _ownership(self._connections, self._settings, self._namespace, exclusive=exclusive)
        self._ownership.acquire()
        self._is_exclusive = exclusive

    @property
    def is_exclusive(self) -> bool:
        return self._is_exclusive

    # ── claims ──────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, keys: Collection[str]) -> dict[str, Any]:
        claims = {f"{key}{_OWNER}": json.dumps({"instance": self._instance}) for key in sorted(keys)}
        query = self._sql("SELECT key, data FROM {table} WHERE namespace = %s AND key = ANY(%s)")

        def take(connection: psycopg.Connection) -> dict[str, Any]:
            # waits for pending writes of the previous owner; the query after it sees what they stored
            self._upsert(connection, claims, "DO UPDATE SET data = excluded.data")
            return dict(connection.execute(query, (self._namespace, list(keys))).fetchall())

        entries = self._run("be claimed", take)
        self._claimed |= frozenset(keys)
        return entries

    def _check_owned(self, connection: psycopg.Connection, keys: Collection[str]) -> None:
        """Block claims of ``keys`` until the end of the transaction; raise if another instance owns some of them."""
        if not keys:
            return
        query = self._sql(
            "SELECT key FROM {table} WHERE namespace = %s AND key = ANY(%s) AND data ->> 'instance' = %s "
            "ORDER BY key FOR SHARE"
        )
        owner_keys = [f"{key}{_OWNER}" for key in keys]
        ours = {row[0] for row in connection.execute(query, (self._namespace, owner_keys, self._instance)).fetchall()}
        if lost := [key for key in keys if f"{key}{_OWNER}" not in ours]:
            raise FencedError(lost)

    def _upsert(self, connection: psycopg.Connection, texts: Mapping[str, str], conflict: LiteralString) -> None:
        """Write JSON ``texts`` by key, in the order of the keys."""
        connection.execute(
            self._sql(
                "INSERT INTO {table} (namespace, key, data) "
                "SELECT %s, k, d::jsonb FROM unnest(%s::text[], %s::text[]) AS entry (k, d) "
                "ON CONFLICT (namespace, key) " + conflict
            ),
            (self._namespace, list(texts), list(texts.values())),
        )

    # ── connection ──────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, what: str, work: Callable[[psycopg.Connection], ResultT]) -> ResultT:
        """Run ``work`` in one transaction: every statement here is idempotent (reads, upserts and deletes by key)."""
        with self._translate_errors(what):
            return self._connections.run(work)

    def _table_exists(self, connection: psycopg.Connection) -> bool:
        name = f"{self._schema}.{self._settings.state_table_name}"
        found = connection.execute("SELECT to_regclass(%s)", (name,)).fetchone()
        return bool(found and found[0])

    def _create(self, connection: psycopg.Connection) -> None:
        import psycopg
        from psycopg import sql

        schema = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema))
        table = self._sql(
            "CREATE TABLE IF NOT EXISTS {table} (namespace TEXT, key TEXT, data JSONB NOT NULL, "
            "created_at TIMESTAMPTZ DEFAULT NOW(), PRIMARY KEY (namespace, key))"
        )
        if self._table_exists(connection):
            return  # a user with access to the table may lack the privilege to create one
        for statement in (schema, table):
            try:
                with connection.transaction():
                    connection.execute(statement)
            except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
                continue  # IF NOT EXISTS is not atomic: another process just created it

    def _sql(self, statement: LiteralString) -> Composed:
        from psycopg import sql

        return sql.SQL(statement).format(table=self._table)

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        import psycopg

        try:
            yield
        except (psycopg.Error, TimeoutError) as error:
            connected = self._connections.has_connected
            if (connection_failure := connection_error(error, self._server, connected=connected)) is not None:
                raise connection_failure.context("state backend") from None
            raise StreamlingError(
                f"the state table {self._schema}.{self._settings.state_table_name} at {self._server} cannot {what}: "
                f"{first_line(error)}",
                retriable=is_transient(error),
            ) from None  # the message contains all of its text


def _table_name(settings: PostgresStateSettings) -> str:
    return f"{settings.state_schema_name}.{settings.state_table_name}"


def _connections(shared: SharedResources, server: PostgresServer, timeout: float) -> StateConnections:
    return shared.acquire(StateConnections, lambda: StateConnections(server, timeout), server, timeout)


def _ownership(
    connections: StateConnections,
    settings: PostgresStateSettings,
    namespace: str,
    *,
    exclusive: bool,
    on_close: Callable[[], object] = lambda: None,
) -> PostgresOwnership:
    table = _table_name(settings)
    return PostgresOwnership(
        connections.locks, connections.server, table, namespace, exclusive=exclusive, on_close=on_close
    )


class PostgresStateStore(StateStore[PostgresStateSettings]):
    """A state table in Postgres, which several instances of a pipeline can use."""

    @property
    def location(self) -> str:
        settings = self.settings
        return f"{_table_name(settings)} at {settings.host}:{settings.port}/{settings.db}"

    def find(self) -> PostgresState | None:
        found = self._state(create=False)
        if found.exists():
            return found
        found.close()
        return None

    def open(self) -> PostgresState:
        return self._state(create=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        with closing(self._ownership()) as ownership:
            ownership.acquire()
            yield

    @contextmanager
    def owned(self, *, exclusive: bool) -> Iterator[PostgresState]:
        with self.open() as state:
            state.lock(exclusive=exclusive)
            yield state

    def connection(self) -> ConnectionCheck:
        return ConnectionCheck(
            "Postgres", str(self.server), lambda: self.describe_entries() or "the table will be created"
        )

    def database(self, prefix: str, tables: Mapping[LiteralString, LiteralString]) -> PostgresDatabase:
        self.open().close()  # creates the schema
        schema = self.settings.state_schema_name
        return PostgresDatabase(self.server, schema, self._ownership(), self.timeout, prefix, tables)

    @property
    def server(self) -> PostgresServer:
        return PostgresServer.of(self.settings, _SECTION, ANY_ADDRESS)

    @property
    def timeout(self) -> float:
        return self.settings.acquire_timeout(self.shutdown_budget)

    def _state(self, *, create: bool) -> PostgresState:
        timeout = self.timeout
        return PostgresState(
            self.application_id, self.settings, acquire_timeout=timeout, create=create, shared=self.shared
        )

    def _ownership(self) -> PostgresOwnership:
        """Return the exclusive lock, not acquired yet."""
        connections = _connections(self.shared, self.server, self.timeout)
        release = partial(self.shared.release, connections)
        return _ownership(connections, self.settings, self.application_id, exclusive=True, on_close=release)
