"""Asks the server for the keys and the rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.errors import ServerError
from streamling.connectors.clickhouse.key_types import KeyValue
from streamling.connectors.clickhouse.page_size import PageSize
from streamling.connectors.clickhouse.pages import Bucket, Page, QueryTooLarge
from streamling.connectors.clickhouse.read_statements import ReadStatements
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.clickhouse.sort_key import Cut, between
from streamling.errors import StreamlingError
from streamling.types.wide.layout import I256, U256, Layout, WideDecimal, contains_wide, from_integers, layout_of

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


# ── columns as the server sends them, in the Arrow types of our columns ──────────────────────────────────────────

_WIDE_BYTES: Final = 32
#: numbers of 64 bits in a wide one
_WORDS: Final = 4


class InvalidValueError(ValueError):
    """A value does not fit its column. The message says why, without the name of the column."""


def convert_column(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Convert a column of a response. Raises `InvalidValueError`."""
    return pa.chunked_array([_convert(chunk, type_) for chunk in column.chunks], type_)


def _convert(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if _has_text(type_):
        _check_text(array)
    if array.type == type_:
        return array
    if contains_wide(type_):
        return _convert_wide(array, type_)
    if pa.types.is_time(type_) or pa.types.is_duration(type_):
        array = array.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    return array.cast(type_)


def _check_text(array: pa.Array) -> None:
    """The server sends text without looking at it; a column of type String may hold any bytes."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise InvalidValueError("it contains bytes that are not valid UTF-8") from None


def _has_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or any(_has_text(type_.field(n).type) for n in range(type_.num_fields))


# ── wide numbers ──────────────────────────────────────────────────────────────────────────────────────────────


def _convert_wide(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if type_ in (U256, I256):
        return pa.ExtensionArray.from_storage(type_, _from_little_endian(array, signed=type_ == I256))
    if isinstance(type_, WideDecimal):
        layout = layout_of(type_)
        assert layout is not None
        return pa.ExtensionArray.from_storage(type_, from_integers(_parsed(array, layout), layout))
    if pa.types.is_decimal(type_):
        return array.cast(type_)
    if pa.types.is_struct(type_):
        members = [_convert(array.field(n), type_.field(n).type) for n in range(type_.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=_mask(array))
    offsets = pc.subtract(array.offsets, array.offsets[0])
    if pa.types.is_map(type_):
        keys, items = _inside(array, array.keys), _inside(array, array.items)
        return pa.MapArray.from_arrays(
            offsets, _convert(keys, type_.key_type), _convert(items, type_.item_type), type=type_, mask=_mask(array)
        )
    values = _convert(_inside(array, array.values), type_.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=type_, mask=_mask(array))


def _inside(array: pa.Array, values: pa.Array) -> pa.Array:
    """Return the part of ``values`` that ``array``, which may be a slice, refers to."""
    start, end = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    return values.slice(start, end - start)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _from_little_endian(array: pa.Array, *, signed: bool) -> pa.Array:
    """Convert numbers of 32 bytes to the form that Spark holds: the most significant byte first, the sign bit flipped.
    Whole columns at once, with Arrow's functions: 256 bits have no type in Python that is fast."""
    reversed_bytes = pc.binary_reverse(pc.fill_null(array.cast(pa.binary()), bytes(_WIDE_BYTES)))
    count = len(array)
    words = pa.Array.from_buffers(pa.uint64(), _WORDS * count, [None, reversed_bytes.buffers()[2]])
    if signed:
        sign_bits = pa.py_buffer((b"\x80" + bytes(_WIDE_BYTES - 1)) * count)
        words = pc.bit_wise_xor(words, pa.Array.from_buffers(pa.uint64(), _WORDS * count, [None, sign_bits]))
    held = pa.Array.from_buffers(pa.binary(_WIDE_BYTES), count, [None, words.buffers()[1]]).cast(pa.binary())
    return pc.if_else(array.is_valid(), held, None) if array.null_count else held


def _parsed(array: pa.Array, layout: Layout) -> list[int | None]:
    try:
        return [None if text is None else layout.parse(text) for text in array.to_pylist()]
    except ValueError as error:
        raise InvalidValueError(str(error)) from None
