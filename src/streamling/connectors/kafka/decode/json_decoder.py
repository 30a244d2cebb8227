"""Decodes JSON messages to columns, in the JVM (`JsonDecoder.java`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from streamling.spark.java import java_class
from streamling.types.wide.layout import layout_of

if TYPE_CHECKING:
    from pyspark.sql import Column

#: fields of a decoded message: the kind of error (`connectors/kafka/decode/invalid_messages.py`) and its detail
PROBLEM: Final = "problem"
DETAIL: Final = "detail"

#: fractional digits of a second by unit
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 6}


def decode_message(value: Column, fields: Sequence[pa.Field]) -> Column:
    """Return a struct of `PROBLEM`, `DETAIL` and a field for each column (`field_name`) over the bytes of a message;
    null for null. Numbers wider than Spark's are text."""
    return _decode("JsonDecoder", value, fields)


def decode_key(text: Column, fields: Sequence[pa.Field]) -> Column:
    """Return the same for the text of a message key, with the columns of the primary key in order. Columns that the key
    lacks are null."""
    return _decode("KeyDecoder", text, fields)


def _decode(decoder: str, content: Column, fields: Sequence[pa.Field]) -> Column:
    from pyspark.sql import Column
    from pyspark.sql.utils import get_active_spark_context

    names, types = [field.name for field in fields], [_type_name(field.type) for field in fields]
    decoders = java_class(get_active_spark_context()._jvm, f"streamling.json.{decoder}")
    return Column(decoders.column(content._jc, names, types, _row_type(fields).json()))


def field_name(number: int) -> str:
    """Return the field of a decoded message for the column with this number; it cannot collide with a user's name."""
    return f"value{number}"


def _row_type(fields: Sequence[pa.Field]) -> Any:
    from pyspark.sql import types as spark

    from streamling.types.spark import to_spark_type

    kinds = [spark.StringType() if layout_of(field.type) else to_spark_type(field.type) for field in fields]
    values = [spark.StructField(field_name(number), kind) for number, kind in enumerate(kinds)]
    return spark.StructType(
        [spark.StructField(PROBLEM, spark.StringType()), spark.StructField(DETAIL, spark.StringType()), *values]
    )


def _type_name(type_: pa.DataType) -> str:
    """Return the type's name in `JsonColumn.java`."""
    if layout_of(type_):
        return "string"
    if pa.types.is_fixed_size_binary(type_):
        return f"binary {type_.byte_width}"
    if pa.types.is_decimal(type_):
        return f"decimal {type_.precision} {type_.scale}"
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_date(type_):
        return "date"
    if pa.types.is_time(type_):
        return f"time {_DIGITS[type_.unit]}"
    if pa.types.is_timestamp(type_):
        return f"timestamp {_DIGITS[type_.unit]}"
    if pa.types.is_duration(type_):
        return "int64"
    if pa.types.is_floating(type_):
        return f"float{type_.bit_width}"
    return str(type_)  # int8 … uint64, binary, null
