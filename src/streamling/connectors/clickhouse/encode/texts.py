"""Conversions to ClickHouse's strings, and to types that it reads from text."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.clickhouse.encode.values import Encode, UnwritableValue, check_between, first_where, shown
from streamling.connectors.clickhouse.type_text import ClickHouseType, EnumValue
from streamling.types.json import json_texts
from streamling.types.names import TYPE_KEY, arrow_type_name
from streamling.types.wide.layout import contains_wide, layout_of, to_texts

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
    """Return the encoder of a String column. Any value has a text: numbers have all their digits, nested values are
    JSON."""
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
    """Convert views, which older servers do not read."""
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
