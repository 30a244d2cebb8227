"""What to read from a table, checked by the server before data flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.errors import ServerError
from streamling.connectors.clickhouse.filter import QueryFilter
from streamling.connectors.clickhouse.page_reader import TableAccess
from streamling.connectors.clickhouse.read_statements import ReadStatements, SelectedColumn
from streamling.connectors.clickhouse.selection import align_columns, select_columns, type_mismatch
from streamling.connectors.clickhouse.server import ClickHouseServer, TableName, literal
from streamling.connectors.clickhouse.sort_key import BEGINNING, Cut, From
from streamling.connectors.clickhouse.table_info import TableInfo, load_table
from streamling.errors import StreamlingError


@dataclass(frozen=True)
class TableQuery:
    """What to read from which table."""

    server: ClickHouseServer
    #: ``name`` or ``database.name``
    table: str
    #: columns to read, in this order; None: all of them
    columns: tuple[str, ...] | None = None
    #: columns and types that the rows must have. Columns are matched by name, and ClickHouse converts them. ``_gs_op``
    #: may be missing in the table; it is then ``i``. Excludes `columns`
    target: pa.Schema | None = None
    #: condition in ClickHouse SQL
    filter: str | None = None
    #: first value of the first sorting key; of a list of values only the first counts
    start_at: str | None = None


@dataclass(frozen=True)
class ReadLimits:
    """How much is read at a time."""

    #: rows of one request
    page_size: int
    #: first width of the ranges of an integer key
    sort_key_range: int
    #: seconds that one query may run
    query_timeout: float


@dataclass(frozen=True)
class CheckedQuery:
    """A query that the server can answer."""

    access: TableAccess
    #: in front of the first row to read
    start: Cut


def check_query(query: TableQuery, limits: ReadLimits, application_id: str) -> CheckedQuery:
    """Ask the server about the table and check columns, filter and start. Errors name what is wrong."""
    condition = None if query.filter is None else QueryFilter.parse(query.filter)
    with ClickHouseClient(query.server, application_id=application_id, timeout=limits.query_timeout) as client:
        table = load_table(client, TableName.parse(query.table, query.server))
        columns = _columns(client, table, query)
        _check_filter(client, table, condition)
        start = _start(client, table, query.start_at)
    statements = ReadStatements(table, columns, condition)
    return CheckedQuery(TableAccess(query.server, application_id, limits.query_timeout, statements), start)


def _columns(client: ClickHouseClient, table: TableInfo, query: TableQuery) -> tuple[SelectedColumn, ...]:
    if query.target is None:
        return select_columns(table, query.columns)
    columns = align_columns(table, query.target)
    try:
        _explain(client, table, columns)
    except ServerError:
        for column in columns:
            _check_conversion(client, table, column)
        raise
    return columns


def _check_conversion(client: ClickHouseClient, table: TableInfo, column: SelectedColumn) -> None:
    try:
        _explain(client, table, (column,))
    except ServerError as error:
        if error.retriable:
            raise
        raise type_mismatch(table, column.field) from error


def _explain(client: ClickHouseClient, table: TableInfo, columns: Sequence[SelectedColumn]) -> None:
    """Let the server check the expressions of columns."""
    client.rows(f"EXPLAIN SELECT {', '.join(column.sql for column in columns)} FROM {table.name.sql}")


def _check_filter(client: ClickHouseClient, table: TableInfo, condition: QueryFilter | None) -> None:
    if condition is None:
        return
    try:
        client.rows(f"EXPLAIN SELECT 1 FROM {table.name.sql} WHERE {condition.sql}")
    except ServerError as error:
        raise error if error.retriable else error.context("the filter is not valid").about("filter") from None


def _start(client: ClickHouseClient, table: TableInfo, start_at: str | None) -> Cut:
    if start_at is None:
        return BEGINNING
    type_ = table.key.first.type
    text = start_at.split(",")[0].strip()
    try:
        (row,) = client.rows(f"SELECT {type_.read_sql.format(type_.user_sql.format(literal(text)))} AS start")
    except ServerError as error:
        if error.retriable:
            raise
        raise StreamlingError.user(
            f"start_at is '{text}', which is not a value of the first sorting key {table.key.expressions[0]}"
            f" ({type_.type}) of the table {table.name}"
        ).about("start_at") from None
    return From(type_.parse(row["start"]))
