"""The table that a sink writes to: how it is created, and what is known about one that exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.encode.times import NARROW_CALENDAR, WIDE_CALENDAR, Calendar
from streamling.connectors.clickhouse.errors import UNKNOWN_DATABASE, ServerError
from streamling.connectors.clickhouse.server import TableName, identifier
from streamling.connectors.clickhouse.type_text import ClickHouseType, InvalidTypeError, parse_type

#: columns that the sink adds in append-only mode
DELETED_COLUMN: Final = "is_deleted"
INSERT_TIME_COLUMN: Final = "insert_time"
#: A time of the server, so that the order of inserts counts whatever the clocks of the instances say. Each row of a
#: block gets one of its own: no two rows of a key have equal versions.
_INSERT_TIME: Final = "now64(9) + toIntervalNanosecond(rowNumberInAllBlocks())"
#: Inserts whose tokens a new table remembers. Only one is in doubt at a time and instance; others may write too.
_TOKENS: Final = 1000
#: ways to compute a column, in which case its values cannot be inserted
_COMPUTED: Final = frozenset({"MATERIALIZED", "ALIAS"})
_WHERE: Final = "database = {database:String} AND"


@dataclass(frozen=True)
class NewColumn:
    """A column of a table that is to be created."""

    name: str
    type: ClickHouseType
    codec: ClickHouseType | None = None

    @property
    def sql(self) -> str:
        return f"{identifier(self.name)} {self.type}" + ("" if self.codec is None else f" {self.codec}")


@dataclass(frozen=True)
class TableColumn:
    """A column of an existing table."""

    name: str
    type: ClickHouseType
    #: DEFAULT, MATERIALIZED, ALIAS, EPHEMERAL; empty without an expression
    default_kind: str

    @property
    def is_computed(self) -> bool:
        """Whether the server computes all values, so that none can be inserted."""
        return self.default_kind in _COMPUTED

    @property
    def is_required(self) -> bool:
        """Whether rows without a value would get a default of the server, such as 0."""
        return not self.default_kind and not self.type.is_nullable


@dataclass(frozen=True)
class Table:
    """An existing table."""

    name: TableName
    #: differs if the table is created again
    identity: str
    engine: str
    sorting_key: frozenset[str]
    is_empty: bool
    columns: Mapping[str, TableColumn]
    calendar: Calendar

    def replaces_by(self, key: Sequence[str]) -> bool:
        """Return whether the server itself keeps one of several rows of a block that have the same ``key``."""
        return self.engine.endswith("ReplacingMergeTree") and self.sorting_key == frozenset(key)

    @property
    def is_distributed(self) -> bool:
        return self.engine == "Distributed"


def find_table(client: ClickHouseClient, name: TableName) -> Table | None:
    """Ask the server about a table; None if it does not exist."""
    parameters = {"database": name.database, "table": name.name}
    found = client.rows(
        "SELECT engine, toString(uuid) AS uuid, ifNull(total_rows, 1) = 0 AS is_empty, "
        "toString(toDate32(toInt32(2932896))) AS last_day "
        f"FROM system.tables WHERE {_WHERE} name = {{table:String}}",
        parameters,
    )
    columns = client.rows(
        "SELECT name, type, default_kind, is_in_sorting_key FROM system.columns "
        f"WHERE {_WHERE} table = {{table:String}} ORDER BY position",
        parameters,
    )
    if not found or not columns:
        return None
    return Table(
        name=name,
        identity=f"{client.server} {name} {found[0]['uuid']}",
        engine=found[0]["engine"],
        sorting_key=frozenset(row["name"] for row in columns if row["is_in_sorting_key"]),
        is_empty=bool(found[0]["is_empty"]),
        columns={row["name"]: TableColumn(row["name"], _type(row["type"]), row["default_kind"]) for row in columns},
        # an older server returns the last day that it knows
        calendar=WIDE_CALENDAR if found[0]["last_day"] == "9999-12-31" else NARROW_CALENDAR,
    )


def create_statement(
    name: TableName, columns: Sequence[NewColumn], key: Sequence[str], *, append_only: bool, version: str | None
) -> str:
    """Return the statement that creates the table. In append-only mode a deleted row is one with `is_deleted` 1, and
    the row with the highest ``version`` is valid, by default the one that was inserted last."""
    definitions = [column.sql for column in columns]
    arguments = ""
    order = f"({', '.join(map(identifier, key))})"
    if append_only:
        definitions.append(f"{identifier(DELETED_COLUMN)} UInt8")
        if version is None:
            version = INSERT_TIME_COLUMN
            definitions.append(f"{identifier(version)} DateTime64(9) DEFAULT {_INSERT_TIME}")
        arguments = f"{identifier(version)}, {identifier(DELETED_COLUMN)}"
    return (
        f"CREATE TABLE IF NOT EXISTS {name.sql} ({', '.join(definitions)}) ENGINE = ReplacingMergeTree({arguments}) "
        f"ORDER BY {order} SETTINGS non_replicated_deduplication_window = {_TOKENS}"
    )


def create_table(client: ClickHouseClient, name: TableName, statement: str) -> None:
    """Create the table; a database that does not exist is an error."""
    try:
        client.execute(statement)
    except ServerError as error:
        if error.code != UNKNOWN_DATABASE:
            raise
        raise ServerError.user(
            f"ClickHouse at {client.server} has no database '{name.database}'",
            remedy=f"create it, or correct `table` or {client.server.section}.database",
        ) from None


def _type(text: str) -> ClickHouseType:
    try:
        return parse_type(text)
    except InvalidTypeError:
        return ClickHouseType(text)  # a type of a newer server: an error only if it has to be written
