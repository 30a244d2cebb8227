"""Encodes rows as Kafka messages, as one Spark plan: key, value, header with the operation, and order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.spark.sql_text import literal, quoted
from streamling.sql.library.wide_numbers import JSON, TEXT, call
from streamling.types.row_kind import OP_COLUMN
from streamling.types.spark import logical_type
from streamling.types.wide.layout import contains_wide, is_wide

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamling.connectors.kafka.encode.avro import AvroEncoding

#: prefix of our error in Spark's text
NULL_KEY = "streamling: no key in "
#: index of a row in source order
ORDER = "__streamling_order"
_KEY = "__streamling_key"
_OPERATION = f"CASE {OP_COLUMN} WHEN 'u' THEN 'u' WHEN 'd' THEN 'd' ELSE 'i' END"
_HEADER = f"""array(named_struct('key', 'dbz.op', 'value', CASE {OP_COLUMN} WHEN 'u' THEN X'75' WHEN 'd' THEN X'64'
    ELSE X'63' END))"""


def with_operation(frame: DataFrame) -> DataFrame:
    """Return the rows with ``_gs_op`` as one of i, u and d, so that value and header always agree."""
    from pyspark.sql import functions as f

    return frame.withColumn(OP_COLUMN, f.expr(_OPERATION) if OP_COLUMN in frame.columns else f.lit("i"))


def messages(frame: DataFrame, key: str, value: Column) -> DataFrame:
    """Return the columns that Spark's Kafka writer expects."""
    from pyspark.sql import functions as f

    return frame.select(f.expr(key).alias("key"), value.alias("value"), f.expr(_HEADER).alias("headers"))


def key_text(primary_key: Sequence[str], columns: pa.Schema) -> str:
    """Return Spark SQL for the key: its columns as text, joined by colons. A null key column is an error."""
    parts = []
    for name in primary_key:
        missing = f"raise_error('{NULL_KEY}' || {literal(name)})"
        parts.append(f"coalesce({_text(columns.field(name), quoted(name))}, {missing})")
    return f"concat_ws(':', {', '.join(parts)})"


def _text(column: pa.Field, path: str) -> str:
    type_, logical = column.type, logical_type(column)
    if contains_wide(logical):
        return call(TEXT if is_wide(logical) else JSON, path, types=[logical])
    if pa.types.is_binary(type_):
        return f"lower(hex({path}))"
    if pa.types.is_nested(type_):
        return f"to_json({path})"
    return f"CAST({path} AS STRING)"


def avro_value(encoding: AvroEncoding, id: int, primary_key: Sequence[str]) -> Column:
    """Return a row in the registry's wire format: a zero byte, four bytes of schema id, the record. A deleted row that
    lacks a required value holds only its key, and is written as a tombstone."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import to_avro

    record = f.struct(*(f.expr(value).alias(name) for name, value in encoding.values.items()))
    frame = b"\x00" + id.to_bytes(4, "big") + encoding.branch
    value = f.concat(f.lit(bytearray(frame)), to_avro(record, json.dumps(encoding.schema)))
    missing = " OR ".join(f"{quoted(name)} IS NULL" for name in encoding.required if name not in primary_key)
    return f.when(f.expr(f"NOT ({OP_COLUMN} = 'd' AND ({missing}))"), value) if missing else value


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────


def in_one_stream(frame: DataFrame) -> DataFrame:
    """Return all rows in source order, written by one task; no shuffle."""
    return frame.coalesce(1)


def by_key(frame: DataFrame, key: str, streams: int) -> DataFrame:
    """Distribute rows by key to ``streams`` tasks, in source order."""
    from pyspark.sql import functions as f

    return in_order(frame.withColumn(ORDER, f.monotonically_increasing_id()).repartition(streams, f.expr(key)))


def in_order(shuffled: DataFrame) -> DataFrame:
    """Restore the order before a shuffle between machines, which delivers rows of several tasks in any order."""
    return shuffled.sortWithinPartitions(ORDER).drop(ORDER)


def last_per_key(frame: DataFrame, key: str, streams: int) -> DataFrame:
    """Return the last row of each key, in source order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    numbered = frame.withColumn(ORDER, f.monotonically_increasing_id()).withColumn(_KEY, f.expr(key))
    rank = f.row_number().over(Window.partitionBy(_KEY).orderBy(f.desc(ORDER)))
    spread = numbered.repartition(streams, _KEY).withColumn("__streamling_rank", rank)
    return in_order(spread.where("__streamling_rank = 1").drop(_KEY, "__streamling_rank"))
