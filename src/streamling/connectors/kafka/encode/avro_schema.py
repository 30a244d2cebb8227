"""The Avro schema that is registered for a subject without one, derived from the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.types.names import TYPE_KEY
from streamling.types.row_kind import OP_COLUMN
from streamling.types.spark import logical_type
from streamling.types.wide.layout import I256, U256, WideDecimal

#: Arrow types without parameters
_PLAIN: dict[pa.DataType, Any] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), "int"),
    **dict.fromkeys((pa.int64(), pa.uint32()), "long"),
    pa.uint64(): {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0},
    U256: {"type": "bytes", "logicalType": "decimal", "precision": 78, "scale": 0, TYPE_KEY: "u256"},
    I256: {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 0, TYPE_KEY: "i256"},
    **dict.fromkeys((pa.float16(), pa.float32()), "float"),
    pa.float64(): "double",
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), "string"),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), "bytes"),
    **{type_: {"type": "int", "logicalType": "date"} for type_ in (pa.date32(), pa.date64())},
    **{type_: {"type": "int", "logicalType": "time-millis"} for type_ in (pa.time32("s"), pa.time32("ms"))},
    **{type_: {"type": "long", "logicalType": "time-micros"} for type_ in (pa.time64("us"), pa.time64("ns"))},
    **dict.fromkeys((pa.duration(unit) for unit in ("s", "ms", "us", "ns")), "long"),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def value_schema(topic: str, columns: pa.Schema, primary_key: Collection[str]) -> list[Any]:
    """Return ``[null, record]``. Key columns, ``_gs_op`` and non-nullable columns are required."""
    names = _Names()
    fields = []
    for column in columns:
        _check_name(column.name, f"column '{column.name}'")
        type_ = _type(column.with_type(logical_type(column)), (column.name,), names)
        nullable = column.nullable and column.name not in (*primary_key, OP_COLUMN) and type_ != "null"
        fields.append(_field(column.name, type_, nullable))
    record = {
        "type": "record",
        "name": names.unique(re.sub(r"\W", "_", topic, flags=re.ASCII), topic),
        "doc": json.dumps({"primaryKeys": list(primary_key)}),
        "fields": fields,
    }
    return ["null", record]


class _Names:
    """Names of types, each used once, because some readers cannot resolve references."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unique(self, name: str, fallback: str = "") -> str:
        name = name if _NAME.fullmatch(name) else f"_{name or fallback}"
        unique_name, number = name, 1
        while unique_name in self._used:
            number += 1
            unique_name = f"{name}_{number}"
        self._used.add(unique_name)
        return unique_name


def _type(field: pa.Field, path: tuple[str, ...], names: _Names) -> Any:
    type_ = field.type
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pa.types.is_timestamp(type_):
        unit = "millis" if type_.unit in ("s", "ms") else "micros"
        return {"type": "long", "logicalType": f"timestamp-{unit}"}
    if pa.types.is_decimal(type_) or isinstance(type_, WideDecimal):
        return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    if pa.types.is_fixed_size_binary(type_):
        return {"type": "fixed", "name": names.unique("_".join((*path, "fixed"))), "size": type_.byte_width}
    if pa.types.is_dictionary(type_):
        return _type(field.with_type(type_.value_type), path, names)
    if pa.types.is_struct(type_):
        return _record(type_, path, names)
    if pa.types.is_map(type_) and pa.types.is_string(type_.key_type):
        values = _type(type_.item_field, (*path, "value"), names)
        return {"type": "map", "values": _or_null(values, type_.item_field.nullable)}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        items = _type(type_.value_field, (*path, "item"), names)
        return {"type": "array", "items": _or_null(items, type_.value_field.nullable)}
    raise StreamlingError.user(
        f"column '{path[0]}' has type {type_}, which Avro does not support", remedy="cast it, or use data_format: json"
    )


def _record(type_: pa.DataType, path: tuple[str, ...], names: _Names) -> dict[str, Any]:
    name, fields = names.unique("_".join(path)), []
    for member in type_:
        _check_name(member.name, f"member '{member.name}' of column '{path[0]}'")
        inner = _type(member, (*path, member.name), names)
        fields.append(_field(member.name, inner, member.nullable and inner != "null"))
    return {"type": "record", "name": name, "fields": fields}


def _field(name: str, type_: Any, nullable: bool) -> dict[str, Any]:
    default = {"default": None} if nullable else {}
    return {"name": name, "type": _or_null(type_, nullable), **default}


def _or_null(type_: Any, nullable: bool) -> Any:
    return ["null", type_] if nullable and type_ != "null" else type_


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise StreamlingError.user(
            f"{what} has a name that Avro does not allow: only letters, digits and _, not starting with a digit",
            remedy="rename it with AS in a sql transform, or use data_format: json",
        )
