"""Describes rejected messages for a dead-letter sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamling.connectors.kafka.decode.invalid_messages import MESSAGE, RejectRule
from streamling.plugins.rejects import REJECT_COLUMN
from streamling.spark.sql_text import literal

if TYPE_CHECKING:
    from pyspark.sql import Column

#: reason for the rejection; null for valid messages
ERROR = "__error"


def message(columns: Sequence[str]) -> Column:
    """Return the column `MESSAGE` over Kafka's own columns."""
    from pyspark.sql import functions as f

    return f.struct("key", "value", *(["headers"] if "headers" in columns else [])).alias(MESSAGE)


def first_reject_reason(reject_rules: Sequence[RejectRule]) -> str:
    """Return Spark SQL for the first rule that applies, or null."""
    branches = " ".join(f"WHEN {one.condition} THEN {one.error_message()}" for one in reject_rules)
    return f"CASE {branches} END"


def reject(topic: str) -> Column:
    """Return the column `REJECT_COLUMN` over the other columns."""
    from pyspark.sql import functions as f

    position = f"concat({literal(topic + '/')}, CAST(partition AS STRING), '/', CAST(offset AS STRING))"
    bad = f"named_struct('error', {ERROR}, 'position', {position}, 'payload', {_payload()})"
    return f.expr(f"IF({ERROR} IS NULL, NULL, {bad})").alias(REJECT_COLUMN)


def _payload() -> str:
    """Return SQL for a JSON object with the content of the message; nulls are left out."""
    headers = f"transform({MESSAGE}.headers, h -> named_struct('key', h.key, {_text_or_bytes('h', 'value')}))"
    parts = [_text_or_bytes(MESSAGE, "key"), _text_or_bytes(MESSAGE, "value"), f"'headers', {headers}"]
    return f"to_json(named_struct({', '.join(parts)}))"


def _text_or_bytes(owner: str, name: str) -> str:
    """Return a field for text and one for other bytes, which JSON encodes as base64. Text with a zero byte counts as
    bytes, because databases do not accept it."""
    path = f"{owner}.{name}"
    is_text = f"(is_valid_utf8(CAST({path} AS STRING)) AND position(X'00' IN {path}) = 0)"
    return f"'{name}', IF({is_text}, CAST({path} AS STRING), NULL), '{name}_base64', IF({is_text}, NULL, {path})"
