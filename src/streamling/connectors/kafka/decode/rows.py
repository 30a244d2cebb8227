"""Decodes Kafka messages to rows, as one Spark plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from streamling.connectors.kafka.decode.invalid_messages import (
    MESSAGE,
    MISSING_KEY,
    OPERATION,
    OnInvalid,
    RejectRule,
    null_on_invalid,
    raise_on_invalid,
)
from streamling.connectors.kafka.decode.rejects import ERROR, first_reject_reason, message, reject
from streamling.connectors.kafka.decode.tombstones import (
    KEY,
    key_columns,
    tombstone_key,
    tombstone_reject_rules,
    with_tombstones,
    without_tombstones,
)
from streamling.spark.sql_text import literal, quoted
from streamling.sql.kernels.registration import register
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

METADATA = (
    pa.field("__kafka_partition", pa.int32(), nullable=False),
    pa.field("__kafka_offset", pa.int64(), nullable=False),
    pa.field("__kafka_timestamp", pa.timestamp("ms")),
)
#: Spark SQL over Kafka's own columns for each of them; the session's time zone is UTC
_METADATA_VALUES = {
    "__kafka_partition": "partition",
    "__kafka_offset": "offset",
    "__kafka_timestamp": "CAST(timestamp AS TIMESTAMP_NTZ)",
}
# Each expression occurs once, and a map replaces a CASE, which repeats its operand for each WHEN: the generated method
# has to stay small (`spark.jvm.settings.LARGEST_METHOD`).
_OPERATIONS = {"c": "i", "u": "u", "d": "d", "r": "i", "C": "i", "U": "u", "D": "d", "R": "i"}
_HEADER = "__operation"
# No lambda: `filter` over the headers prevents code generation, 0.46 instead of 0.6 M records/s.
_OPERATION = (
    "CAST(try_element_at(headers.value, CAST(nullif(array_position(headers.key, 'dbz.op'), 0) AS INT)) AS STRING)"
)


class Format(Protocol):
    """How values are decoded."""

    #: whether a message with a null key column is rejected
    key_is_required: bool

    def payloads(self) -> Mapping[str, Column]:
        """Return decoded structs, computed in the lowest projection."""

    def key_text(self) -> Column:
        """Return the message key as text: a JSON object, or the value itself; null if there is none."""

    def checks(self) -> Sequence[Mapping[str, str]]:
        """Return columns computed from those, each with Spark SQL; one projection on top of the other."""

    def values(self) -> Sequence[tuple[pa.Field, str]]:
        """Return the columns of the payload, each with Spark SQL over the columns of the other two."""

    def reject_rules(self, finished: Mapping[str, str]) -> Sequence[RejectRule]:
        """Return the rules that reject a message, over the columns of all three and `MESSAGE`; ``finished`` are the
        finished columns by name."""


def decode_rows(
    messages: DataFrame, format: Format, schema: pa.Schema, node: str, primary_key: tuple[str, ...]
) -> DataFrame:
    """Decode rows with the columns of ``schema``; an invalid message stops the plan."""
    rows = _Rows(format, schema, raise_on_invalid(node), primary_key)
    frame = _apply_checks(rows.with_key(messages.select(*rows.lower())), format)
    values = rows.values()
    register(messages.sparkSession, values.values())
    return _select_columns(frame, schema, values)


def decode_rows_with_rejects(
    messages: DataFrame, format: Format, schema: pa.Schema, topic: str, primary_key: tuple[str, ...]
) -> DataFrame:
    """Return the same with a column `REJECT_COLUMN`, which says why a message is rejected. Values are computed before
    the reject rules check them, under names that no user column has."""
    from pyspark.sql import functions as f

    rows = _Rows(format, schema, null_on_invalid, primary_key)
    frame = _apply_checks(rows.with_key(messages.select(*rows.lower(), message(messages.columns))), format)
    values = rows.values()
    finished = {name: f"__value{number}" for number, name in enumerate(values)}
    register(messages.sparkSession, values.values())
    frame = frame.select("*", *(f.expr(value).alias(finished[name]) for name, value in values.items()))
    reject_rules = [*tombstone_reject_rules(primary_key, finished), *format.reject_rules(finished)]
    if format.key_is_required:
        reject_rules += [_missing_key_rule(name, finished[name]) for name in primary_key if name in finished]
    if not rows.has_operation:
        reject_rules.append(RejectRule(f"{finished[OP_COLUMN]} IS NULL", OPERATION, _HEADER))
    frame = frame.select("*", f.expr(first_reject_reason(reject_rules)).alias(ERROR))
    return _select_columns(frame, schema, finished, reject(topic))


class _Rows:
    """Projections on top of each other: expensive expressions that are used more than once are computed once in the
    lower one."""

    def __init__(self, format: Format, schema: pa.Schema, on_invalid: OnInvalid, primary_key: tuple[str, ...]) -> None:
        self._format = format
        self._schema = schema
        self._column_names = {field.name for field in schema}
        self._on_invalid = on_invalid
        self._primary_key = primary_key
        self.has_operation = any(field.name == OP_COLUMN for field, _ in format.values())

    def lower(self) -> list[Column]:
        from pyspark.sql import functions as f

        payloads = dict(self._format.payloads())
        if not self._primary_key:
            payloads["payload"] = without_tombstones(payloads["payload"], self._on_invalid)
        lower = [*(column.alias(name) for name, column in payloads.items()), f.expr("partition"), f.expr("offset")]
        if self._primary_key:
            lower.append(tombstone_key(self._on_invalid, self._format.key_text()).alias(KEY))
        if not self.has_operation:
            lower.append(f.expr(_OPERATION).alias(_HEADER))
        lower += [f.expr(value).alias(name) for name, value in _METADATA_VALUES.items() if name in self._column_names]
        return lower

    def with_key(self, frame: DataFrame) -> DataFrame:
        """Return the lower projection with the columns from the keys of tombstones."""
        return frame.select("*", key_columns(self._schema, self._primary_key)) if self._primary_key else frame

    def values(self) -> dict[str, str]:
        """Return Spark SQL of the columns that are computed."""
        on_invalid, key = self._on_invalid, self._primary_key
        values = {
            field.name: with_tombstones(self._require_key(field, value), on_invalid, field, key)
            for field, value in self._format.values()
        }
        operation_sql = values[OP_COLUMN] if self.has_operation else operation(on_invalid)
        values[OP_COLUMN] = f"IF({KEY} IS NULL, {operation_sql}, 'd')" if key else operation_sql
        return values

    def _require_key(self, field: pa.Field, value: str) -> str:
        """Return the value of a column; a key column must not be null."""
        if field.name not in self._primary_key or not self._format.key_is_required:
            return value
        return f"coalesce({value}, {self._on_invalid(MISSING_KEY, literal(field.name))})"


def _missing_key_rule(name: str, path: str) -> RejectRule:
    return RejectRule(f"{MESSAGE}.value IS NOT NULL AND {path} IS NULL", MISSING_KEY, literal(name))


def _apply_checks(frame: DataFrame, format: Format) -> DataFrame:
    from pyspark.sql import functions as f

    for columns in format.checks():
        frame = frame.select("*", *(f.expr(value).alias(name) for name, value in columns.items()))
    return frame


def _select_columns(frame: DataFrame, schema: pa.Schema, values: Mapping[str, str], *more: Column) -> DataFrame:
    from pyspark.sql import functions as f

    from streamling.types.spark import to_spark_schema

    return frame.select(
        *(
            f.expr(values.get(field.name, quoted(field.name))).alias(field.name, metadata=field.metadata)
            for field in to_spark_schema(schema).fields
        ),
        *more,
    )


def operation(on_invalid: OnInvalid) -> str:
    """Return Spark SQL for ``_gs_op`` over `_HEADER`, which is null without a header."""
    meanings = ", ".join(f"'{header}', '{op}'" for header, op in _OPERATIONS.items())
    unknown = on_invalid(OPERATION, _HEADER)
    return f"coalesce(try_element_at(map({meanings}), coalesce({_HEADER}, 'c')), {unknown})"
