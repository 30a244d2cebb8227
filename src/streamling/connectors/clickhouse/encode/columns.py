"""The conversion of a column to its ClickHouse type, whatever the types are."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.clickhouse.encode.numbers import number_encoder
from streamling.connectors.clickhouse.encode.times import Calendar, time_encoder
from streamling.connectors.clickhouse.encode.values import (
    Encode,
    UnwritableValue,
    as_logical,
    check_between,
    first_where,
    shown,
)
from streamling.connectors.clickhouse.type_text import ClickHouseType, EnumValue, Named, parse_type
from streamling.types.json import json_texts
from streamling.types.names import TYPE_KEY, arrow_type_name
from streamling.types.wide.layout import contains_wide, layout_of, to_texts

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


# ── ClickHouse's strings, and types that it reads from text ──────────────────────────────────────────────────────

_UUID: Final = "^[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}$"
_BYTE: Final = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"^({_BYTE}\.){{3}}{_BYTE}$"
_ADDRESS_BYTES: Final = 16


def text_encoder(logical: pa.DataType, target: ClickHouseType) -> Encode | None:
    """Return the conversion of values of ``logical`` to text, or to what the server makes of it; None if ``target`` is
    something else or does not fit."""
    match target.name:
        case "String":
            return _string_encoder(logical)
        case "FixedString" if _is_bytes(logical):
            (length,) = (argument for argument in target.arguments if isinstance(argument, int))
            return lambda column: _checked_length(_plain(column), length)
        case "Enum" | "Enum8" | "Enum16" if _is_text(logical):
            names = [value.name for value in target.arguments if isinstance(value, EnumValue)]
            return lambda column: _one_of(_plain(column), pa.array(names))
        case "UUID" if _is_text(logical):
            return lambda column: pc.ascii_lower(_matching(_plain(column), _UUID, "UUID"))
        case "IPv4" if _is_text(logical):
            return lambda column: _matching(_plain(column), _IPV4, "IPv4 address")
        case "IPv4" if pa.types.is_integer(logical):
            return _ipv4_number
        case "IPv6" if _is_text(logical):
            return _plain
        case "UUID" | "IPv6" if _is_bytes(logical):
            return _sixteen_bytes
        case "JSON" | "Object" if _is_text(logical) or pa.types.is_nested(logical):
            return _string_encoder(logical)
        case _:
            return None


def _is_text(logical: pa.DataType) -> bool:
    types = pa.types
    return any(test(logical) for test in (types.is_string, types.is_large_string, types.is_string_view))


def _is_binary(logical: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(logical) for test in tests)


def _is_bytes(logical: pa.DataType) -> bool:
    return _is_text(logical) or _is_binary(logical)


def _string_encoder(logical: pa.DataType) -> Encode:
    """Any value has a text: numbers have all their digits, nested values are JSON."""
    layout = layout_of(logical)
    if layout is not None:
        return lambda column: to_texts(column, layout) if pa.types.is_binary(column.type) else column.cast(pa.string())
    if _is_bytes(logical):
        return _plain
    if pa.types.is_nested(logical) and not pa.types.is_union(logical):
        metadata = {TYPE_KEY: arrow_type_name(logical)} if contains_wide(logical) else None
        return lambda column: _json(column, metadata)
    return _any_text


def _json(column: pa.Array, metadata: dict[str, str] | None) -> pa.Array:
    return pa.array(json_texts(column, pa.field("value", column.type, metadata=metadata)), pa.large_string())


def _any_text(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # intervals and unions
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.large_string())


def _plain(column: pa.Array) -> pa.Array:
    """Older servers do not read views."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def _checked_length(column: pa.Array, length: int) -> pa.Array:
    longest = pc.max(pc.binary_length(column)).as_py()
    if longest is not None and longest > length:
        raise UnwritableValue(f"a value has {longest} bytes, more than {length}")
    return column


def _one_of(column: pa.Array, names: pa.Array) -> pa.Array:
    known = pc.or_(pc.is_in(column, names.cast(column.type)), column.is_null())
    unknown = first_where(column, pc.invert(known))
    if unknown is not None:
        raise UnwritableValue(f"the value {shown(unknown)} is not one of its values")
    return column


def _matching(column: pa.Array, pattern: str, what: str) -> pa.Array:
    wrong = first_where(column, pc.invert(pc.match_substring_regex(column, pattern)).fill_null(False))
    if wrong is not None:
        raise UnwritableValue(f"the value {shown(wrong)} is not a valid {what}")
    return column


def _ipv4_number(column: pa.Array) -> pa.Array:
    check_between(column, 0, 2**32 - 1)
    return column.cast(pa.uint32())


def _sixteen_bytes(column: pa.Array) -> pa.Array:
    column = _plain(column)
    lengths = pc.min_max(pc.binary_length(column))
    for length in (lengths["min"].as_py(), lengths["max"].as_py()):
        if length not in (None, _ADDRESS_BYTES):
            raise UnwritableValue(f"a value has {length} bytes instead of {_ADDRESS_BYTES}")
    return column.cast(pa.binary(_ADDRESS_BYTES))
