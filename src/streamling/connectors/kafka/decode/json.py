"""Decodes JSON messages: exactly one object each, with the columns that the pipeline file declares.

`streamling.connectors.kafka.decode.json_decoder` decodes a message to a row, or reports what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.connectors.kafka.decode.invalid_messages import (
    JSON_TEXT,
    JSON_VALUE,
    RejectRule,
    null_on_invalid,
    raise_on_invalid,
)
from streamling.connectors.kafka.decode.json_decoder import DETAIL, PROBLEM, decode_message, field_name
from streamling.connectors.kafka.decode.tombstones import plain_key
from streamling.errors import StreamlingError
from streamling.pipeline.typenames import parse_type
from streamling.spark.sql_text import literal
from streamling.sql.library.wide_numbers import PARSE, call, checked
from streamling.types.wide.layout import layout_of

if TYPE_CHECKING:
    from pyspark.sql import Column

_SHOWN = 200


class JsonFormat:
    """Columns are in alphabetical order and nullable; keys that are not columns are ignored."""

    key_is_required = True

    def __init__(self, node: str, schema: Mapping[str, str], *, rejecting: bool) -> None:
        self._rejecting = rejecting
        self._on_invalid = null_on_invalid if rejecting else raise_on_invalid(node)
        self._schema = pa.schema([pa.field(name, parse_type(schema[name])) for name in sorted(schema)])

    def load(self) -> None:
        """Check that Spark supports the types; this needs no connection."""
        from streamling.types.spark import physical_type

        for field in self._schema:
            try:
                physical_type(field.type)
            except StreamlingError as error:
                raise error.context(f"schema.{field.name}") from None

    def add_schema(self, id: int, *, of_key: bool) -> None:
        raise AssertionError("JSON messages have no schema ids")

    def schema(self) -> pa.Schema:
        return self._schema

    def primary_key(self) -> tuple[str, ...]:
        return ()

    def identity(self) -> str:
        """Return a text that is equal for formats that decode messages alike."""
        return f"json {self._schema.to_string(show_schema_metadata=True)}"

    def key_text(self) -> Column:
        """Return the key as text, whatever the format of the values is."""
        return plain_key()

    def payloads(self) -> dict[str, Column]:
        from pyspark.sql import functions as f

        return {"payload": decode_message(f.col("value"), list(self._schema))}

    def checks(self) -> Sequence[Mapping[str, str]]:
        """Return the checks of a message. An invalid one stops the plan, whichever of its columns is used."""
        if self._rejecting:
            return []
        text, value = (self._on_invalid(kind, f"payload.{DETAIL}") for kind in (JSON_TEXT, JSON_VALUE))
        bad = f"IF(payload.{PROBLEM} = {literal(JSON_TEXT)}, {text}, {value})"
        return [{"checked": f"IF(payload.{PROBLEM} IS NULL, payload, {bad})"}]

    def values(self) -> Sequence[tuple[pa.Field, str]]:
        return [(field, self._value(number, field)) for number, field in enumerate(self._schema)]

    def reject_rules(self, finished: Mapping[str, str]) -> Sequence[RejectRule]:
        return [
            *(
                RejectRule(f"payload.{PROBLEM} = {literal(kind)}", kind, f"payload.{DETAIL}")
                for kind in (JSON_TEXT, JSON_VALUE)
            ),
            *(
                RejectRule(
                    f"{path} IS NOT NULL AND {finished[field.name]} IS NULL", JSON_VALUE, _detail_sql(field, path)
                )
                for number, field in enumerate(self._schema)
                if layout_of(field.type)
                for path in (self._path(number),)
            ),
        ]

    def _value(self, number: int, field: pa.Field) -> str:
        path = self._path(number)
        layout = layout_of(field.type)
        if layout is None:
            return path
        parsed = call(PARSE, path, types=[field.type])
        on_invalid = self._on_invalid(JSON_VALUE, _detail_sql(field, path))
        return f"IF({path} IS NULL, NULL, {checked(parsed, layout, on_invalid)})"

    def _path(self, number: int) -> str:
        return f"{'payload' if self._rejecting else 'checked'}.{field_name(number)}"


def _detail_sql(field: pa.Field, path: str) -> str:
    return f"concat({literal(field.name + ' = ')}, left({path}, {_SHOWN}))"
