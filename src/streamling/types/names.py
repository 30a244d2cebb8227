"""Converts types to text and back: for metadata, which can only hold text.

Plain types have pyarrow's names. For a nested type only the wide numbers inside are named, in JSON, each with its path
in the type that Spark holds.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

from streamling.types.wide.layout import I256, U256, contains_wide, decimal_type, is_wide

#: key in a column's metadata, in Spark and in Arrow: the name of the column's logical Arrow type
TYPE_KEY: Final = "streamling.type"
#: the name of a type that only Spark knows
_UNKNOWN: Final = "unknown"

_UNITS = ("s", "ms", "us", "ns")
_PLAIN: tuple[pa.DataType, ...] = (
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.large_string(),
    pa.string_view(),
    pa.large_binary(),
    pa.binary_view(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.duration(unit) for unit in _UNITS),
    *(pa.timestamp(unit) for unit in _UNITS),
)
_BY_NAME = {str(type_): type_ for type_ in (*_PLAIN, U256, I256)}
_DECIMAL: Final = re.compile(r"decimal(?:256)?\((\d+), (\d+)\)")


def field_of_unknown_type(name: str) -> pa.Field:
    """Return a column of a checked schema whose type only Spark knows; its type is null until then."""
    return pa.field(name, pa.null(), metadata={TYPE_KEY: _UNKNOWN})


def is_known(field: pa.Field) -> bool:
    """Return False for a `field_of_unknown_type`."""
    return (field.metadata or {}).get(TYPE_KEY.encode()) != _UNKNOWN.encode()


def arrow_type_name(type_: pa.DataType) -> str:
    """Return a name such as ``uint8``, ``timestamp[ns, tz=UTC]``, ``fixed_size_binary[20]``, ``u256`` or ``{"item":
    "u256"}``."""
    if contains_wide(type_) and not is_wide(type_):
        return json.dumps(_wide_names(type_))
    return str(type_)


def arrow_type(name: str, physical: pa.DataType | None = None) -> pa.DataType | None:
    """Return the type with this `arrow_type_name`, in path of ``physical``; None if the type needs no name."""
    if name.startswith("{"):
        return None if physical is None else _with_wide_types(physical, json.loads(name))
    if match := _DECIMAL.fullmatch(name):
        return decimal_type(int(match[1]), int(match[2]))
    head, _, rest = name.rstrip("]").partition("[")
    if head == "fixed_size_binary" and rest.isdigit():
        return pa.binary(int(rest))
    unit, _, zone = rest.partition(", tz=")
    if head == "timestamp" and unit in _UNITS:
        return pa.timestamp(unit, zone or None)
    return _BY_NAME.get(name)


def readable(type_: pa.DataType) -> str:
    """Return a name for messages: ``u256``, ``list<u256>``, ``struct<a: decimal256(76, 6)>``; pyarrow's own name if the
    type has no wide numbers."""
    if is_wide(type_) or not contains_wide(type_):
        return str(type_)
    if _is_list(type_):
        return f"list<{readable(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{readable(type_.key_type)}, {readable(type_.item_type)}>"
    return f"struct<{', '.join(f'{field.name}: {readable(field.type)}' for field in type_)}>"


def _is_list(type_: pa.DataType) -> bool:
    return any(test(type_) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _wide_names(type_: pa.DataType) -> Any:
    """Return the names of the wide numbers in a type, by path; None if there are none."""
    if is_wide(type_):
        return str(type_)
    if _is_list(type_):
        parts = {"item": _wide_names(type_.value_type)}
    elif pa.types.is_map(type_):
        parts = {"key": _wide_names(type_.key_type), "value": _wide_names(type_.item_type)}
    elif pa.types.is_struct(type_):
        parts = {field.name: _wide_names(field.type) for field in type_}
    else:
        return None
    return {path: part for path, part in parts.items() if part is not None} or None


def _with_wide_types(physical: pa.DataType, names: Any) -> pa.DataType:
    if names is None:
        return physical
    if isinstance(names, str):
        return arrow_type(names) or physical
    if _is_list(physical):
        return pa.list_(physical.value_field.with_type(_with_wide_types(physical.value_type, names.get("item"))))
    if pa.types.is_map(physical):
        return pa.map_(
            _with_wide_types(physical.key_type, names.get("key")),
            _with_wide_types(physical.item_type, names.get("value")),
        )
    if pa.types.is_struct(physical):
        return pa.struct([field.with_type(_with_wide_types(field.type, names.get(field.name))) for field in physical])
    return physical
