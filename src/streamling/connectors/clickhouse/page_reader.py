"""Asks the server for the keys and the rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, TypeVar

import pyarrow as pa

from streamling.connectors.clickhouse.arrow_values import InvalidValueError, convert_column
from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.errors import ServerError
from streamling.connectors.clickhouse.key_types import KeyValue
from streamling.connectors.clickhouse.page_size import PageSize
from streamling.connectors.clickhouse.pages import Bucket, Page, QueryTooLarge
from streamling.connectors.clickhouse.read_statements import ReadStatements
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.clickhouse.sort_key import Cut, between
from streamling.errors import StreamlingError

T = TypeVar("T")

#: errors that a smaller query may avoid: limits of time, rows, bytes and memory
_TOO_LARGE: Final = {158, 159, 160, 241, 307, 396}
_READONLY: Final = 164
#: limits after which a server can be configured to return what it has
_LIMITS: Final = ("timeout", "read", "result", "sort", "set", "group_by")
#: seconds that a query may take longer than its limit, which the server checks now and then
_GRACE: Final = 10.0


@dataclass(frozen=True)
class TableAccess:
    """Everything that is needed to read a table; executors receive it with their tasks."""

    server: ClickHouseServer
    application_id: str
    query_timeout: float
    statements: ReadStatements

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.statements.columns])

    def connect(self) -> ClickHouseClient:
        return ClickHouseClient(self.server, application_id=self.application_id, timeout=self.query_timeout + _GRACE)


class PageReader:
    """One connection that reads keys (`streamling.connectors.clickhouse.pages.KeyCounts`) and pages. Used by one thread
    at a time; `cancel` by any."""

    def __init__(self, access: TableAccess, size: PageSize, retry: Callable[[Callable[[], Any]], Any]) -> None:
        self._access = access
        self._statements = access.statements
        self._size = size
        self._retry = retry
        self._client = access.connect()
        self._cancelled = False

    # ── rows ────────────────────────────────────────────────────────────────────────────────────────────────

    def fetch(self, page: Page) -> pa.Table:
        """Return the rows of a page, complete. Raises `QueryTooLarge` if it should be divided."""
        try:
            return self._call(lambda: self._fetch(self._statements.rows(page)))
        except QueryTooLarge as error:
            error.rows = page.rows
            raise

    def _fetch(self, sql: str) -> pa.Table:
        most, size, batches = self._size.most_bytes, 0, []
        for batch in self._client.arrow(f"{sql}{self._limits()}", settings=self._format_settings()):
            if self._cancelled:
                raise Cancelled
            size += batch.nbytes
            if most is not None and size > most:
                raise QueryTooLarge(f"a page has more than {most >> 20} MiB")
            batches.append(batch)
        return self._converted(batches)

    def _converted(self, batches: list[pa.RecordBatch]) -> pa.Table:
        schema = self._access.schema
        if not batches:
            return schema.empty_table()
        columns = []
        for field, column in zip(schema, pa.Table.from_batches(batches).columns, strict=True):
            columns.append(self._converted_column(field, column))
        return pa.Table.from_arrays(columns, schema=schema)

    def _converted_column(self, field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
        where = f"the column '{field.name}' of the table {self._statements.table.name}"
        try:
            converted = convert_column(column, field.type)
        except (InvalidValueError, pa.ArrowInvalid) as error:
            raise StreamlingError.user(
                f"{where} cannot be read: {error}", remedy="leave it out with columns, or convert it in a view"
            ) from None
        if not field.nullable and converted.null_count:
            raise StreamlingError.user(f"{where} contains NULL, which its column in the pipeline does not allow")
        return converted

    def _format_settings(self) -> dict[str, str]:
        # on the same machine, compression takes longer than it saves: 3.8 instead of 8.1 M rows/s
        method = "none" if _is_loopback(self._access.server.origin.host) else "lz4_frame"
        return {"output_format_arrow_compression_method": method}

    # ── keys ────────────────────────────────────────────────────────────────────────────────────────────────

    def count(self, start: Cut) -> int:
        (row,) = self._query(self._statements.count(start))
        return int(row[0])

    def buckets(self, start: int, width: int) -> list[Bucket]:
        rows = self._query(self._statements.buckets(start, width))
        return sorted((Bucket(*map(int, row)) for row in rows), key=lambda bucket: bucket.number)

    def first_key(self, start: Cut) -> int | None:
        if between(start, None, self._statements.table.key) == "false":
            return None  # behind the largest value of the type
        rows = self._query(self._statements.first_key(start))
        return int(rows[0][0]) if rows else None

    def page_ends(self, start: Cut, end: Cut | None, rows: int) -> list[tuple[KeyValue, ...]]:
        return [self._key(row) for row in self._query(self._statements.page_ends(start, end, rows))]

    def last_row(self, start: Cut, end: Cut | None) -> tuple[tuple[KeyValue, ...], int] | None:
        rows = self._query(self._statements.last_row(start, end))
        return (self._key(rows[0][:-1]), int(rows[0][-1])) if rows else None

    def _key(self, texts: list[str]) -> tuple[KeyValue, ...]:
        columns = self._statements.table.key.columns
        return tuple(
            None if text is None else column.type.parse(text) for column, text in zip(columns, texts, strict=True)
        )

    def _query(self, sql: str) -> list[list[str]]:
        rows = self._call(lambda: self._client.rows(f"{sql}{self._limits()}"))
        return [list(row.values()) for row in rows]

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────

    def _limits(self) -> str:
        """Return settings of every query. A profile may say that a result is cut off where a limit is exceeded."""
        modes = ", ".join(f"{limit}_overflow_mode = 'throw'" for limit in _LIMITS)
        return f" SETTINGS max_execution_time = {self._access.query_timeout:g}, {modes}"

    def _call(self, work: Callable[[], T]) -> T:
        result: T = self._retry(lambda: self._attempt(work))
        return result

    def _attempt(self, work: Callable[[], T]) -> T:
        if self._cancelled:
            raise Cancelled
        try:
            return work()
        except StreamlingError as error:
            if self._cancelled:
                raise Cancelled from None
            raise self._explained(error) from None

    def _explained(self, error: StreamlingError) -> StreamlingError:
        if isinstance(error, ServerError):
            if error.code in _TOO_LARGE and self._size.can_shrink:
                return QueryTooLarge(str(error))
            if error.code in _TOO_LARGE:
                error.remedy = f"raise {self._access.server.section}.query_timeout_sec or the limits of the server"
            if error.code == _READONLY:
                error.remedy = f"set readonly to 2 for the user '{self._access.server.user}': queries need settings"
        return error

    def cancel(self) -> None:
        """Let the current call end soon."""
        self._cancelled = True
        self._client.abort()

    def close(self) -> None:
        self._client.close()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Cancelled(Exception):
    """The reader was closed; the result is not needed."""
