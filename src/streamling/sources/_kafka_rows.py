"""From Kafka's messages to rows, as one Spark plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from streamling.sources._kafka_failures import OPERATION, raising
from streamling.sources._kafka_keys import KEY, tombstone_key, with_tombstones, without_tombstones
from streamling.sql.kernels.registration import register

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OP = "_gs_op"
METADATA = (
    pa.field("__kafka_partition", pa.int32(), nullable=False),
    pa.field("__kafka_offset", pa.int64(), nullable=False),
    pa.field("__kafka_timestamp", pa.timestamp("ms")),
)
#: a function of Kafka's own columns that stands for each of them; the session's time zone is UTC
_METADATA_VALUES = {
    "__kafka_partition": "partition",
    "__kafka_offset": "offset",
    "__kafka_timestamp": "CAST(timestamp AS TIMESTAMP_NTZ)",
}
# One mention of each expression, and a map instead of a CASE: the JVM never compiles methods of more than 8 000 bytes,
# and a CASE repeats its operand for each WHEN (180 instead of 390 thousand records/s).
_OPERATIONS = {"c": "i", "u": "u", "d": "d", "r": "i", "C": "i", "U": "u", "D": "d", "R": "i"}
_HEADER = "__operation"
# No lambda: `filter` over the headers falls out of code generation, 0.46 instead of 0.6 M records/s.
_OPERATION = (
    "CAST(try_element_at(headers.value, CAST(nullif(array_position(headers.key, 'dbz.op'), 0) AS INT)) AS STRING)"
)


class Format(Protocol):
    """How values are encoded."""

    def payloads(self) -> Mapping[str, Column]:
        """Decoded structs, made in the lowest projection."""

    def key_text(self) -> Column:
        """The message key as text: a JSON object, or the value itself; null where there is none."""

    def checks(self) -> Mapping[str, str]:
        """Columns made of those, each with Spark SQL, in a projection of its own."""

    def values(self) -> Sequence[tuple[pa.Field, str]]:
        """The columns of the payload, each with Spark SQL over the columns of the other two."""


def decoded_rows(
    messages: DataFrame, format: Format, schema: pa.Schema, node: str, primary_key: tuple[str, ...]
) -> DataFrame:
    """Rows with the columns of ``schema``. Projections on top of each other: what is used more than once, and costs
    something, is made once in the lower one."""
    from pyspark.sql import functions as f

    from streamling.types.spark import to_spark_schema

    has_operation = any(field.name == OP for field, _ in format.values())
    payloads = dict(format.payloads())
    if not primary_key:
        payloads["payload"] = without_tombstones(payloads["payload"], node)
    lower = [
        *(column.alias(name) for name, column in payloads.items()),
        f.expr("partition"),
        f.expr("offset"),
    ]
    if primary_key:
        lower.append(tombstone_key(node, format.key_text()).alias(KEY))
    if not has_operation:
        lower.append(f.expr(_OPERATION).alias(_HEADER))
    wanted = {field.name for field in schema}
    lower += [f.expr(value).alias(name) for name, value in _METADATA_VALUES.items() if name in wanted]

    values = {field.name: with_tombstones(value, node, field, primary_key) for field, value in format.values()}
    said = values[OP] if has_operation else operation(node)
    values[OP] = f"IF({KEY} IS NULL, {said}, 'd')" if primary_key else said
    register(messages.sparkSession, values.values())
    frame = messages.select(*lower)
    if checks := format.checks():
        frame = frame.select("*", *(f.expr(value).alias(name) for name, value in checks.items()))
    return frame.select(
        *(
            f.expr(values.get(field.name, f"`{field.name}`")).alias(field.name, metadata=field.metadata)
            for field in to_spark_schema(schema).fields
        )
    )


def operation(node: str) -> str:
    """Spark SQL for ``_gs_op`` over `_HEADER`, which is null where there is no header."""
    meanings = ", ".join(f"'{header}', '{op}'" for header, op in _OPERATIONS.items())
    unknown = raising(node, OPERATION, _HEADER)
    return f"coalesce(try_element_at(map({meanings}), coalesce({_HEADER}, 'c')), {unknown})"
