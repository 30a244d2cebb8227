"""Tombstones: a message without a value deletes the row that its key names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.sources._kafka_failures import TOMBSTONE, TOMBSTONE_KEY, literal, raising
from streamling.types.spark import to_spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

#: the key of a tombstone, as text; null for every other message
KEY = "__tombstone_key"


def tombstone_key(node: str) -> str:
    """Spark SQL for the column `KEY`, over Kafka's own columns."""
    return f"IF(value IS NULL, coalesce(CAST(key AS STRING), {raising(node, TOMBSTONE_KEY)}), NULL)"


def without_tombstones(payload: Column, node: str) -> Column:
    """A payload that stops the plan where there is none. It hangs on the payload because a plan that does not use a
    column leaves it out with everything in it."""
    from pyspark.sql import functions as f

    return f.when(f.expr("value IS NULL"), f.expr(raising(node, TOMBSTONE))).otherwise(payload)


def key_value(node: str, field: pa.Field, primary_key: tuple[str, ...]) -> str:
    """Spark SQL for a key column of a tombstone, over `KEY`: from a JSON object (plain or in the envelope of Kafka
    Connect), from the text itself, or from texts joined by colons as the Kafka sink writes them."""
    name, count = literal(f"$['{field.name}']"), len(primary_key)
    enveloped = literal(f"$['payload']['{field.name}']")
    json = f"coalesce(get_json_object({KEY}, {name}), get_json_object({KEY}, {enveloped}))"
    plain = KEY
    if count > 1:
        parts = f"split({KEY}, ':')"
        plain = f"IF(size({parts}) = {count}, {parts}[{primary_key.index(field.name)}], NULL)"
    text = f"IF({KEY} LIKE '{{%', {json}, {plain})"
    kind = to_spark_type(field.type).simpleString()
    value = f"unhex(replace({text}, '-', ''))" if pa.types.is_fixed_size_binary(field.type) else text
    return f"coalesce(try_cast({value} AS {kind}), {raising(node, TOMBSTONE_KEY, KEY)})"


def with_tombstones(value: str, node: str, field: pa.Field, primary_key: tuple[str, ...]) -> str:
    """The value of a column, taken from the key where the message is a tombstone."""
    if field.name not in primary_key:
        return value
    return f"IF({KEY} IS NULL, {value}, {key_value(node, field, primary_key)})"
