"""Tombstones: a message without a value deletes the row with its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.connectors.kafka.decode.invalid_messages import MESSAGE, TOMBSTONE, TOMBSTONE_KEY, OnInvalid, RejectRule
from streamling.connectors.kafka.decode.json_decoder import decode_key, field_name
from streamling.sql.library.wide_numbers import PARSE, call, checked
from streamling.types.avro import bytes_of_decimal, is_decimal, with_all_digits
from streamling.types.wide.layout import SPARK_DIGITS, layout_of

if TYPE_CHECKING:
    from pyspark.sql import Column

#: key of a tombstone, as text; null for all other messages
KEY = "__tombstone_key"
#: struct of the columns in it
KEY_COLUMNS = "__tombstone_columns"


def tombstone_key(on_invalid: OnInvalid, key_text: Column) -> Column:
    """Return the column `KEY` over Kafka's own columns; ``key_text`` is the key of any message."""
    from pyspark.sql import functions as f

    known = f.coalesce(key_text, f.expr(on_invalid(TOMBSTONE_KEY, "coalesce(concat('0x', hex(key)), 'null')")))
    return f.when(f.expr("value IS NULL"), known)


def plain_key() -> Column:
    """Return a message key that is text; null if it is not text."""
    from pyspark.sql import functions as f

    return f.expr("IF(is_valid_utf8(CAST(key AS STRING)), CAST(key AS STRING), NULL)")


def decode_avro_key(schema: Any, mode: str) -> Column:
    """Return a message key that is Avro in a schema registry's wire format, as text."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    options = {"mode": mode, "avroSchema": json.dumps(_readable(schema))}
    decoded = from_avro(f.expr("substring(key, 6)"), json.dumps(schema), options)
    if not isinstance(schema, dict) or schema["type"] != "record":
        return _text(decoded, schema)
    fields = [_text(decoded.getField(field["name"]), field["type"]).alias(field["name"]) for field in schema["fields"]]
    return f.to_json(f.struct(*fields))


def _text(value: Column, avro: Any) -> Column:
    from pyspark.sql import functions as f

    if _is_wide(avro):  # only non-negative numbers without fractional digits have a text
        digits = f.when(value < f.lit(bytearray(b"\x80")), f.concat(f.lit("0x"), f.hex(value)))
        return f.lit(None).cast("string") if _scale(avro) else digits
    return f.hex(value) if _is_bytes(avro) else value.cast("string")


def _scale(avro: Any) -> int:
    branches = avro if isinstance(avro, list) else [avro]
    return max(int(branch.get("scale", 0)) for branch in branches if isinstance(branch, dict))


def _readable(avro: Any) -> Any:
    """Return a schema that Spark reads exactly: decimals that it does not support become bytes."""
    if isinstance(avro, list):
        return [_readable(branch) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    if avro["type"] == "record":
        return {**avro, "fields": [{**field, "type": _readable(field["type"])} for field in avro["fields"]]}
    if is_decimal(avro):
        return bytes_of_decimal(avro) if _is_wide(avro) else with_all_digits(avro)
    return avro


def _is_wide(avro: Any) -> bool:
    if isinstance(avro, list):
        return any(map(_is_wide, avro))
    return isinstance(avro, dict) and avro.get("logicalType") == "decimal" and avro["precision"] > SPARK_DIGITS


def _is_bytes(avro: Any) -> bool:
    if isinstance(avro, list):
        return any(map(_is_bytes, avro))
    if isinstance(avro, dict):
        return avro["type"] in ("bytes", "fixed") and avro.get("logicalType") != "decimal"
    return bool(avro == "bytes")


def without_tombstones(payload: Column, on_invalid: OnInvalid) -> Column:
    """Return a payload that stops the plan at a tombstone. The check is part of the payload because Spark removes
    unused columns from a plan."""
    from pyspark.sql import functions as f

    return f.when(f.expr("value IS NULL"), f.expr(on_invalid(TOMBSTONE))).otherwise(payload)


def key_columns(schema: pa.Schema, primary_key: tuple[str, ...]) -> Column:
    """Return the column `KEY_COLUMNS` over `KEY`: the values of the primary key in the key of a tombstone. They come
    from a JSON object (plain or in Kafka Connect's envelope), from the text itself, or from texts joined by colons as
    the Kafka sink writes them. Bytes are hex digits."""
    from pyspark.sql import functions as f

    return decode_key(f.col(KEY), _key_fields(schema, primary_key)).alias(KEY_COLUMNS)


def _key_fields(schema: pa.Schema, primary_key: tuple[str, ...]) -> list[pa.Field]:
    """Return the fields of the key, including columns that the schema lacks."""
    return [schema.field(name) if name in schema.names else pa.field(name, pa.string()) for name in primary_key]


def _key_value(on_invalid: OnInvalid, field: pa.Field, number: int) -> str:
    """Return Spark SQL for a key column of a tombstone, over `KEY` and `KEY_COLUMNS`."""
    path = f"{KEY_COLUMNS}.{field_name(number)}"
    bad = on_invalid(TOMBSTONE_KEY, KEY)
    if layout := layout_of(field.type):
        path = checked(call(PARSE, path, types=[field.type]), layout, "NULL")
    return f"coalesce({path}, {bad})"


def with_tombstones(value: str, on_invalid: OnInvalid, field: pa.Field, primary_key: tuple[str, ...]) -> str:
    """Return the value of a column, taken from the key if the message is a tombstone."""
    if field.name not in primary_key:
        return value
    return f"IF({KEY} IS NULL, {value}, {_key_value(on_invalid, field, primary_key.index(field.name))})"


def tombstone_reject_rules(primary_key: tuple[str, ...], finished: Mapping[str, str]) -> list[RejectRule]:
    """Return the rules that reject tombstones without a usable key; ``finished`` are the finished columns."""
    if not primary_key:
        return [RejectRule(f"{MESSAGE}.value IS NULL", TOMBSTONE)]
    missing = " OR ".join(
        [f"{KEY} IS NULL", *(f"{finished[name]} IS NULL" for name in primary_key if name in finished)]
    )
    shown = f"coalesce({KEY}, concat('0x', hex({MESSAGE}.key)), 'null')"
    return [RejectRule(f"{MESSAGE}.value IS NULL AND ({missing})", TOMBSTONE_KEY, shown)]
