"""Chooses the columns of a read and how the server converts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from streamling.connectors.clickhouse.key_types import integer_range
from streamling.connectors.clickhouse.read_statements import SelectedColumn
from streamling.connectors.clickhouse.read_types import UnsupportedTypeError, arrow_field, read_type
from streamling.connectors.clickhouse.server import identifier
from streamling.connectors.clickhouse.table_info import TableInfo
from streamling.connectors.clickhouse.type_text import ClickHouseType, Named
from streamling.errors import StreamlingError
from streamling.types.row_kind import OP_COLUMN
from streamling.types.wide.layout import I256, U256, WideDecimal

#: Arrow type without parameters → the type that the server sends for it
_SENT: Final = {
    pa.bool_(): "Bool",
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
    pa.string(): "String",
    pa.binary(): "String",
    pa.date32(): "Date32",
    U256: "UInt256",
    I256: "Int256",
}
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
#: types that cannot be Nullable
_NEVER_NULLABLE: Final = frozenset({"Array", "Tuple", "Map"})


def select_columns(table: TableInfo, names: Sequence[str] | None) -> tuple[SelectedColumn, ...]:
    """Return the columns with these names, or all of them, with the Arrow types closest to their own. A column
    ``_gs_op`` of the table is always one of them: it says what happened to the rows."""
    chosen = table.own_columns if names is None else names
    types = {name: table.column(name, "columns") for name in chosen}
    if OP_COLUMN in table.columns:
        types.setdefault(OP_COLUMN, table.columns[OP_COLUMN])
    columns = tuple(_selected(table, name, type_) for name, type_ in types.items())
    for column in columns:
        if column.field.name == OP_COLUMN and (column.field.type != pa.string() or column.field.nullable):
            raise StreamlingError.user(
                f"the column '{OP_COLUMN}' of the table {table.name} has type {types[OP_COLUMN]}; it must be text"
            ).about("table_name")
    return columns


def _selected(table: TableInfo, name: str, type_: ClickHouseType) -> SelectedColumn:
    try:
        return SelectedColumn(arrow_field(name, type_), _cast(identifier(name), type_, read_type(type_)[1]))
    except UnsupportedTypeError:
        raise StreamlingError.user(
            f"the column '{name}' of the table {table.name} has type {type_}, which cannot be read",
            remedy="list the columns to read in columns, without this one",
        ).about("columns") from None


# ── columns that have to fit others ───────────────────────────────────────────────────────────────────────────


def align_columns(table: TableInfo, target: pa.Schema) -> tuple[SelectedColumn, ...]:
    """Return the columns of ``target``, found by name and converted to its types. ``_gs_op`` is ``i`` if the table has
    none. The server decides whether it can convert them: see `type_mismatch`."""
    return tuple(_aligned(table, field) for field in target)


def _aligned(table: TableInfo, field: pa.Field) -> SelectedColumn:
    if field.name == OP_COLUMN and OP_COLUMN not in table.columns:
        return SelectedColumn(field, "'i'")
    if field.name not in table.columns:
        raise StreamlingError.user(
            f"the table {table.name} has no column '{field.name}', which the unbounded source has",
            remedy="add it to the table, for example as an ALIAS column, or remove it from the topic's schema",
        )
    type_ = table.columns[field.name]
    sent = _aligned_type(type_, field.type)
    if sent is None:
        raise type_mismatch(table, field)
    return SelectedColumn(field, _cast(identifier(field.name), type_, sent))


def type_mismatch(table: TableInfo, field: pa.Field) -> StreamlingError:
    """Return the error that the server cannot convert a column to the type of ``field``."""
    return StreamlingError.user(
        f"the column '{field.name}' has type {table.columns[field.name]} in the table {table.name}, which cannot be"
        f" converted to {field.type}, its type in the unbounded source",
        remedy="change the type of one of them",
    )


def _aligned_type(type_: ClickHouseType, target: pa.DataType) -> ClickHouseType | None:
    """Return the type that the server has to send to get ``target``; None if there is none."""
    try:
        arrow, sent = read_type(type_)
    except UnsupportedTypeError:
        return None
    if arrow == target:
        return sent
    wanted = _sent_for(target)
    if wanted is None or wanted.name in _NEVER_NULLABLE or not sent.is_nullable:
        return wanted
    return ClickHouseType("Nullable", (wanted,))


def _sent_for(target: pa.DataType) -> ClickHouseType | None:
    types = pa.types
    if target in _SENT:
        return ClickHouseType(_SENT[target])
    if isinstance(target, WideDecimal):
        return ClickHouseType("String")  # ClickHouse has no decimals of that length
    if types.is_decimal(target):
        return ClickHouseType("Decimal", (target.precision, target.scale))
    if types.is_fixed_size_binary(target):
        return ClickHouseType("FixedString", (target.byte_width,))
    if types.is_timestamp(target):
        return ClickHouseType("DateTime64", (_DIGITS[target.unit], "UTC"))
    if types.is_time(target) or types.is_duration(target):
        return ClickHouseType("Int64")
    if types.is_list(target):
        return _nested("Array", target.value_field)
    if types.is_map(target):
        return _nested("Map", target.key_field, target.item_field)
    if types.is_struct(target):
        return _nested("Tuple", *target)
    return None


def _nested(name: str, *fields: pa.Field) -> ClickHouseType | None:
    arguments: list[ClickHouseType | Named] = []
    for field in fields:
        sent = _sent_for(field.type)
        if sent is None:
            return None
        if field.nullable and sent.name not in _NEVER_NULLABLE:
            sent = ClickHouseType("Nullable", (sent,))
        arguments.append(Named(field.name, sent) if name == "Tuple" else sent)
    return ClickHouseType(name, tuple(arguments))


def _cast(sql: str, type_: ClickHouseType, sent: ClickHouseType) -> str:
    """Return SQL of a column that is sent as another type. An integer that does not fit is an error; CAST would wrap
    it."""
    if type_ == sent:
        return sql
    if integer_range(type_.bare) is not None and integer_range(sent.bare) is not None:
        return f"accurateCast({sql}, '{sent}')"
    return f"CAST({sql} AS {sent})"
