"""Maps Arrow types to Spark and back.

Spark has fewer types than Arrow. Values of a missing type are held in the next wider one, their physical type, and the
metadata of the column names the Arrow type, so that a sink at the end of the plan knows the type of the source.
Metadata follows a column through projections and renames; an expression over it has only the physical type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.types.names import TYPE_KEY, arrow_type, arrow_type_name
from streamling.types.wide.layout import (
    Layout,
    contains_wide,
    from_decimals,
    is_wide,
    layout_of,
    without_point,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

#: where Spark stores a column's metadata, as JSON, in Arrow schemas
_SPARK_METADATA = b"SPARK::metadata::json"

#: Arrow type → its physical type, for types without parameters that Spark does not have
_PHYSICAL_TYPES: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
    pa.time64("ns"): pa.int64(),  # Spark's TIME has microseconds: nanoseconds are held as a number
    **{pa.duration(unit): pa.int64() for unit in ("s", "ms", "us", "ns")},
}

#: the physical types and their classes in `pyspark.sql.types`
_SPARK: dict[pa.DataType, str] = {
    pa.null(): "NullType",
    pa.bool_(): "BooleanType",
    pa.int8(): "ByteType",
    pa.int16(): "ShortType",
    pa.int32(): "IntegerType",
    pa.int64(): "LongType",
    pa.float32(): "FloatType",
    pa.float64(): "DoubleType",
    pa.string(): "StringType",
    pa.binary(): "BinaryType",
    pa.date32(): "DateType",
    pa.time64("us"): "TimeType",
    pa.timestamp("us"): "TimestampNTZType",
    pa.timestamp("us", "UTC"): "TimestampType",
}
#: types that only Spark has: text of a fixed or bounded length, and the difference of two times
_ARROW = {
    **{name: type_ for type_, name in _SPARK.items()},
    "CharType": pa.string(),
    "VarcharType": pa.string(),
    "DayTimeIntervalType": pa.duration("us"),
}


# ── types ─────────────────────────────────────────────────────────────────────────────────────────────────


def physical_type(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark holds values of ``type_``; nested types part by part."""
    if type_ in _PHYSICAL_TYPES:
        return _PHYSICAL_TYPES[type_]
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    if is_wide(type_):
        return pa.binary()
    if pa.types.is_decimal(type_):
        return _physical_decimal(type_)
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    if pa.types.is_dictionary(type_):
        return physical_type(type_.value_type)
    if _is_list(type_):
        return pa.list_(_physical_field(type_.value_field))
    if pa.types.is_map(type_):
        return pa.map_(physical_type(type_.key_type), physical_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([_physical_field(field) for field in type_])
    if type_ in _SPARK:
        return type_
    raise StreamlingError.user(f"Spark cannot hold values of type {type_}")


def _physical_decimal(type_: pa.DataType) -> pa.DataType:
    if type_.scale < 0:
        raise StreamlingError.user(f"Spark cannot hold {type_}: its decimals have no negative scale")
    return pa.decimal128(type_.precision, type_.scale)


def _physical_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, physical_type(field.type), field.nullable)


def _is_list(type_: pa.DataType) -> bool:
    return any(test(type_) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def to_spark_type(type_: pa.DataType) -> DataType:
    """Return Spark's type for values of ``type_``."""
    from pyspark.sql import types as spark

    held = physical_type(type_)
    if pa.types.is_decimal(held):
        return spark.DecimalType(held.precision, held.scale)
    if pa.types.is_list(held):
        return spark.ArrayType(to_spark_type(held.value_type))
    if pa.types.is_map(held):
        return spark.MapType(to_spark_type(held.key_type), to_spark_type(held.item_type))
    if pa.types.is_struct(held):
        return spark.StructType([spark.StructField(f.name, to_spark_type(f.type), f.nullable) for f in held])
    spark_type: DataType = getattr(spark, _SPARK[held])()
    return spark_type


def to_arrow_type(type_: DataType) -> pa.DataType | None:
    """Return the Arrow type of the values that ``toArrow`` returns for a Spark type; None for types that never leave
    Spark."""
    from pyspark.sql import types as spark

    if isinstance(type_, spark.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, spark.ArrayType):
        element = to_arrow_type(type_.elementType)
        return None if element is None else pa.list_(element)
    if isinstance(type_, spark.MapType):
        key, value = to_arrow_type(type_.keyType), to_arrow_type(type_.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    if isinstance(type_, spark.StructType):
        fields = [(field.name, to_arrow_type(field.dataType), field.nullable) for field in type_.fields]
        return None if any(f[1] is None for f in fields) else pa.struct([pa.field(*f) for f in fields])
    return _ARROW.get(type(type_).__name__)


# ── schemas ───────────────────────────────────────────────────────────────────────────────────────────────


def to_spark_schema(schema: pa.Schema) -> StructType:
    """Return columns for Spark; the metadata names the logical type if it differs."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(field.name, to_spark_type(field.type), field.nullable, _metadata(field)) for field in schema]
    )


def _metadata(field: pa.Field) -> dict[str, Any]:
    known = _known_metadata(field)
    if _loses_information(field.type):
        known[TYPE_KEY] = arrow_type_name(field.type)
    return known


def _known_metadata(field: pa.Field) -> dict[str, Any]:
    """Return the metadata of a column, also if Spark created the field."""
    found = dict(field.metadata or {})
    from_spark = json.loads(found.pop(_SPARK_METADATA, b"{}"))
    return {**from_spark, **{key.decode(): value.decode() for key, value in found.items()}}


def _loses_information(type_: pa.DataType) -> bool:
    """Return whether the physical type loses information, apart from Arrow's memory layout."""
    return (
        type_ in _PHYSICAL_TYPES
        or pa.types.is_fixed_size_binary(type_)
        or contains_wide(type_)
        or (pa.types.is_timestamp(type_) and (type_.unit != "us" or type_.tz not in (None, "UTC")))
    )


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return columns as ``toArrow`` returns them: physical types, with the metadata of Spark's columns."""
    fields = []
    for field in schema.fields:
        type_ = to_arrow_type(field.dataType)
        if type_ is None:
            kind = field.dataType.simpleString()
            raise StreamlingError.user(
                f"column '{field.name}' has type {kind}, which no sink supports",
                remedy="cast it, for example to TEXT",
            )
        metadata = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in field.metadata.items()
        }
        fields.append(pa.field(field.name, type_, field.nullable, metadata or None))
    return pa.schema(fields)


def logical_type(field: pa.Field) -> pa.DataType:
    """Return the logical Arrow type of a column: that of its metadata, else its own."""
    if not field.metadata:
        return field.type
    name = _known_metadata(field).get(TYPE_KEY)
    return field.type if name is None else arrow_type(name, field.type) or field.type


def column_type(field: StructField) -> pa.DataType | None:
    """Return the `sql_type` of a Spark column; None for types that never leave Spark."""
    held = to_arrow_type(field.dataType)
    name = field.metadata.get(TYPE_KEY)
    return held if held is None or name is None else sql_type(pa.field(field.name, held, metadata={TYPE_KEY: name}))


def sql_type(field: pa.Field) -> pa.DataType:
    """Return the type of a column in SQL: the physical type, except for wide numbers, which the compiler supports."""
    logical = logical_type(field)
    return logical if contains_wide(logical) else field.type


# ── data ──────────────────────────────────────────────────────────────────────────────────────────────────


def to_physical(table: pa.Table) -> pa.Table:
    """Convert every column to its physical type, ready for ``createDataFrame``; unchanged if nothing differs."""
    schema = pa.schema([pa.field(f.name, physical_type(f.type), f.nullable) for f in table.schema])
    if schema.types == table.schema.types:
        return table
    columns = [_to_physical_column(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _to_physical_column(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if contains_wide(column.type):
        return pa.chunked_array([_physical(chunk, column.type) for chunk in column.chunks], type_)
    if pa.types.is_duration(column.type) or column.type == pa.time64("ns"):
        return column.cast(pa.int64()).cast(type_)
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(type_, safe=False)  # Spark has microseconds
    return column.cast(type_)


def _physical(column: pa.Array, type_: pa.DataType) -> pa.Array:
    layout = layout_of(type_)
    if layout is None:
        return pa.array([physical_value(value, type_) for value in column.to_pylist()], physical_type(type_))
    return from_decimals(column, layout) if pa.types.is_decimal(type_) else column.storage


def _physical_number(number: Any, layout: Layout) -> Any:
    return layout.encode(without_point(number, layout)) if isinstance(number, Decimal) else number


def physical_value(value: Any, type_: pa.DataType, held: Callable[[Any, Layout], Any] = _physical_number) -> Any:
    """Convert the wide numbers in a value to the form that Spark holds; raises `OverflowError` for one that does not
    fit."""
    if value is None or not contains_wide(type_):
        return value
    layout = layout_of(type_)
    if layout is not None:
        return held(value, layout)
    if _is_list(type_):
        return [physical_value(item, type_.value_type, held) for item in value]
    if pa.types.is_map(type_):
        entries = value.items() if isinstance(value, dict) else value
        return [
            (physical_value(key, type_.key_type, held), physical_value(item, type_.item_type, held))
            for key, item in entries
        ]
    if pa.types.is_struct(type_):
        return {field.name: physical_value(value[field.name], field.type, held) for field in type_}
    return value
