"""Matches columns with Avro types that are not nested: whether they fit, and how to convert them for Spark's
encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamling.types.wide.layout import SPARK_DIGITS, Layout, contains_wide, decimal_type, layout_of
from streamling.types.wide.spark_sql import from_long, needed_bytes, to_twos_complement

_UUID = "lower(regexp_replace(hex({0}), '(.{8})(.{4})(.{4})(.{4})(.{12})', '$1-$2-$3-$4-$5'))"
_MICROSECONDS = "timestampdiff(MICROSECOND, TIMESTAMP'1970-01-01', TIMESTAMP'1970-01-01' + {0})"
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


@dataclass(frozen=True)
class ColumnType:
    """A physical type in Spark, as an Arrow type, and its logical type."""

    physical: pa.DataType
    logical: pa.DataType

    def part(self, of: Callable[[pa.DataType], pa.DataType]) -> ColumnType:
        """Return a part of a nested type, such as its elements."""
        physical = of(self.physical)
        return ColumnType(physical, of(self.logical) if contains_wide(self.logical) else physical)


@dataclass(frozen=True)
class EncodedField:
    schema: Any
    value: str | None = None


class TypeMismatch(Exception):
    """Completes the sentence "column 'x' has type …"."""

    def __init__(self, kind: ColumnType, schema: Any) -> None:
        super().__init__(f"{kind.logical}, but the schema requires {_readable_type(schema)}")


def plain(name: str, kind: ColumnType) -> EncodedField:
    exact = {
        "null": (pa.null(),),
        "boolean": (pa.bool_(),),
        "int": _INTEGERS[:3],
        "long": (pa.int64(),),
        "float": (pa.float32(),),
        "double": (pa.float64(),),
        "string": (pa.string(),),
        "bytes": (pa.binary(),),
    }
    widened = {"long": ("BIGINT", _INTEGERS[:3]), "double": ("DOUBLE", (*_INTEGERS[:3], pa.float32()))}
    if kind.physical in exact.get(name, ()):
        return EncodedField(name)
    if name in widened and kind.physical in widened[name][1]:
        return EncodedField(name, f"CAST({{0}} AS {widened[name][0]})")
    if name == "long" and pa.types.is_duration(kind.physical):
        return EncodedField(name, _MICROSECONDS)
    raise TypeMismatch(kind, name)


def enum(schema: dict[str, Any], kind: ColumnType) -> EncodedField:
    if not pa.types.is_string(kind.physical):
        raise TypeMismatch(kind, schema)
    return EncodedField(schema)


def fixed(schema: dict[str, Any], kind: ColumnType) -> EncodedField:
    if schema.get("logicalType") == "decimal":
        return _decimal(schema, kind)
    other_size = pa.types.is_fixed_size_binary(kind.logical) and kind.logical.byte_width != schema["size"]
    if not pa.types.is_binary(kind.physical) or other_size:
        raise TypeMismatch(kind, schema)
    return EncodedField({key: value for key, value in schema.items() if key != "logicalType"})


def _decimal(schema: dict[str, Any], kind: ColumnType) -> EncodedField:
    precision, scale, physical = schema["precision"], schema.get("scale", 0), kind.physical
    layout = layout_of(kind.logical)
    if layout is not None:
        return _wide(schema, kind, layout, "{0}")
    if precision > SPARK_DIGITS and physical in _INTEGERS:
        layout = layout_of(decimal_type(SPARK_DIGITS + 1, 0))
        assert layout is not None
        return _wide(schema, kind, layout, from_long("CAST({0} AS BIGINT)", layout, "NULL"))
    if pa.types.is_decimal(physical):
        digits, places = physical.precision, physical.scale
    elif physical in _INTEGERS:
        digits, places = {1: 3, 2: 5, 4: 10, 8: 19}[physical.bit_width // 8], 0
    else:
        raise TypeMismatch(kind, schema)
    if places > scale or digits - places > precision - scale or precision > SPARK_DIGITS:
        raise TypeMismatch(kind, schema)
    same = pa.types.is_decimal(physical) and (digits, places) == (precision, scale)
    return EncodedField(schema, None if same else f"CAST({{0}} AS DECIMAL({precision}, {scale}))")


def _wide(schema: dict[str, Any], kind: ColumnType, layout: Layout, physical: str) -> EncodedField:
    """Encode numbers that Spark's encoder does not support as bytes."""
    fits = max(len(str(abs(bound))) for bound in (layout.low, layout.high)) <= schema["precision"]
    size = schema.get("size")
    if not fits or schema.get("scale", 0) != layout.scale or (size is not None and size < needed_bytes(layout)):
        raise TypeMismatch(kind, schema)
    value = to_twos_complement(physical, layout, size)
    plain = {key: part for key, part in schema.items() if key not in ("logicalType", "precision", "scale")}
    return EncodedField("bytes" if size is None else plain, value)


def _uuid(schema: dict[str, Any], kind: ColumnType) -> EncodedField:
    if pa.types.is_string(kind.physical):
        return EncodedField("string")
    if pa.types.is_binary(kind.physical):
        return EncodedField("string", _UUID)
    raise TypeMismatch(kind, schema)


def _date(schema: dict[str, Any], kind: ColumnType) -> EncodedField:
    if not pa.types.is_date(kind.physical):
        raise TypeMismatch(kind, schema)
    return EncodedField(schema)


def _time(schema: dict[str, Any], kind: ColumnType) -> EncodedField:
    millis = schema["logicalType"] == "time-millis"
    if kind.logical == pa.time64("ns"):
        return EncodedField("int", "CAST({0} div 1000000 AS INT)") if millis else EncodedField("long", "{0} div 1000")
    if not pa.types.is_time(kind.physical):
        raise TypeMismatch(kind, schema)
    return EncodedField("int", "CAST(time_to_millis({0}) AS INT)") if millis else EncodedField(schema)


def _timestamp(schema: dict[str, Any], kind: ColumnType) -> EncodedField:
    if not pa.types.is_timestamp(kind.physical):
        raise TypeMismatch(kind, schema)
    unit = schema["logicalType"].rpartition("-")[2]
    if unit == "nanos":
        return EncodedField("long", "unix_micros(CAST({0} AS TIMESTAMP)) * 1000")
    prefix = "" if kind.physical.tz else "local-"
    return EncodedField({"type": "long", "logicalType": f"{prefix}timestamp-{unit}"})


#: by Avro type and logical type
LOGICAL_TYPES: dict[tuple[str, str], Callable[[dict[str, Any], ColumnType], EncodedField]] = {
    ("bytes", "decimal"): _decimal,
    ("string", "uuid"): _uuid,
    ("int", "date"): _date,
    ("int", "time-millis"): _time,
    ("long", "time-micros"): _time,
    **{
        ("long", f"{local}timestamp-{unit}"): _timestamp
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
}


def _readable_type(schema: Any) -> str:
    """Return a short name of a type."""
    if isinstance(schema, list):
        return " or ".join(_readable_type(branch) for branch in schema)
    if isinstance(schema, str):
        return schema
    if schema.get("logicalType") == "decimal":
        return f"decimal({schema['precision']}, {schema.get('scale', 0)})"
    if schema["type"] == "record":
        return f"a record of {', '.join(field['name'] for field in schema['fields'])}"
    if schema["type"] == "fixed":
        return f"{schema['size']} bytes"
    return str(schema.get("logicalType") or _readable_type(schema["type"]))
