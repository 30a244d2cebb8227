"""The conversion of a column to its ClickHouse type, whatever the types are."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.clickhouse.encode.numbers import number_encoder
from streamling.connectors.clickhouse.encode.texts import text_encoder
from streamling.connectors.clickhouse.encode.times import Calendar, time_encoder
from streamling.connectors.clickhouse.encode.values import Encode, UnwritableValue, as_logical
from streamling.connectors.clickhouse.type_text import ClickHouseType, Named, parse_type

#: other names of nested types
_ALIASES: Final = {
    name: parse_type(text)
    for name, text in {
        "Point": "Tuple(Float64, Float64)",
        "Ring": "Array(Point)",
        "LineString": "Array(Point)",
        "Polygon": "Array(Ring)",
        "MultiLineString": "Array(LineString)",
        "MultiPolygon": "Array(Polygon)",
    }.items()
}


def column_encoder(logical: pa.DataType, target: ClickHouseType, calendar: Calendar) -> Encode | None:
    """Return the conversion of columns of the type ``logical`` to ``target``; None if the types do not fit. It raises
    `UnwritableValue` for values that ``target`` cannot hold, except for NULL: that is up to the caller."""
    encode = _value_encoder(logical, _resolved(target), calendar)
    return None if encode is None else lambda column: encode(as_logical(column, logical))


def _part_encoder(logical: pa.DataType, target: ClickHouseType, calendar: Calendar) -> Encode | None:
    """Return the conversion of parts of nested values, which may be NULL only if they are Nullable."""
    encode = column_encoder(logical, target, calendar)
    if encode is None or target.is_nullable:
        return encode

    def encode_without_nulls(column: pa.Array) -> pa.Array:
        if column.null_count:
            raise UnwritableValue(f"a value contains NULL where {target} is expected, which is not Nullable")
        return encode(column)

    return encode_without_nulls


def _resolved(target: ClickHouseType) -> ClickHouseType:
    """Return the type that determines how values are written."""
    target = target.bare
    if target.name == "SimpleAggregateFunction":
        return _resolved(target.types[-1])
    if target.name == "Nested":
        return ClickHouseType("Array", (ClickHouseType("Tuple", target.arguments),))
    return _ALIASES.get(target.name, target)


def _value_encoder(logical: pa.DataType, target: ClickHouseType, calendar: Calendar) -> Encode | None:
    if pa.types.is_dictionary(logical):
        return _value_encoder(logical.value_type, target, calendar)
    if pa.types.is_null(logical):
        return _nulls
    match target.name:
        case "Array":
            return _array_encoder(logical, target, calendar)
        case "Map":
            return _map_encoder(logical, target, calendar)
        case "Tuple":
            return _tuple_encoder(logical, target, calendar)
        case "Dynamic" | "Variant":
            return _any_encoder(logical, target, calendar)
        case _:
            return (
                number_encoder(logical, target)
                or time_encoder(logical, target, calendar)
                or text_encoder(logical, target)
            )


def _nulls(column: pa.Array) -> pa.Array:
    return pa.nulls(len(column), pa.string())


def _any_encoder(logical: pa.DataType, target: ClickHouseType, calendar: Calendar) -> Encode | None:
    """Return a value of a type that the server recognizes in Arrow data."""
    from streamling.connectors.clickhouse.column_types import clickhouse_type

    if pa.types.is_nested(logical):
        return None
    own = clickhouse_type(pa.field("value", logical, nullable=False))
    if own.name in ("UInt256", "Int256", "Decimal") or (target.name == "Variant" and own not in target.types):
        return None
    return _value_encoder(logical, own, calendar)


# ── nested types ─────────────────────────────────────────────────────────────────────────────────────────────


def _array_encoder(logical: pa.DataType, target: ClickHouseType, calendar: Calendar) -> Encode | None:
    types = pa.types
    if not (types.is_list(logical) or types.is_large_list(logical) or types.is_fixed_size_list(logical)):
        return None
    items = _part_encoder(logical.value_type, target.inner, calendar)
    if items is None:
        return None

    def encode(column: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(_offsets(column), items(column.flatten()))

    return encode


def _map_encoder(logical: pa.DataType, target: ClickHouseType, calendar: Calendar) -> Encode | None:
    if not pa.types.is_map(logical):
        return None
    keys = _part_encoder(logical.key_type, target.types[0], calendar)
    items = _part_encoder(logical.item_type, target.types[1], calendar)
    if keys is None or items is None:
        return None

    def encode(column: pa.Array) -> pa.Array:
        column = pa.concat_arrays([column])  # the entries of a slice only
        return pa.MapArray.from_arrays(column.offsets, keys(column.keys), items(column.items))

    return encode


def _tuple_encoder(logical: pa.DataType, target: ClickHouseType, calendar: Calendar) -> Encode | None:
    """Return the encoder of a tuple. Elements are found by name if all have names that are fields, otherwise by
    position."""
    if not pa.types.is_struct(logical) or logical.num_fields != len(target.types):
        return None
    names = [element.name for element in target.arguments if isinstance(element, Named)]
    fields = [field.name for field in logical]
    order = [fields.index(name) for name in names] if sorted(names) == sorted(fields) else list(range(len(fields)))
    chosen = [
        _part_encoder(logical.field(index).type, type_, calendar)
        for index, type_ in zip(order, target.types, strict=True)
    ]
    encoders = [encoder for encoder in chosen if encoder is not None]
    if len(encoders) < len(chosen):
        return None

    def encode(column: pa.Array) -> pa.Array:
        mask = column.is_null() if column.null_count else None
        parts = [pc.struct_field(column, index) for index in order]
        encoded = [encoder(part) for encoder, part in zip(encoders, parts, strict=True)]
        return pa.StructArray.from_arrays(encoded, names=[fields[index] for index in order], mask=mask)

    return encode


def _offsets(column: pa.Array) -> pa.Array:
    ends = pc.cumulative_sum(pc.list_value_length(column).cast(pa.int32()).fill_null(0))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])
