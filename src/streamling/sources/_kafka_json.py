"""JSON messages: one object each, with the columns that the pipeline file declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.pipeline.typenames import parse_type
from streamling.sources._kafka_failures import JSON_TEXT, JSON_VALUE, MESSAGE, Complaint, Instead
from streamling.sources._kafka_keys import plain_key
from streamling.spark.sql_text import literal, quoted, type_sql
from streamling.sql.library.wide import MEMBER, PARSE
from streamling.sql.wide_calls import call, checked
from streamling.types.wide import is_wide, layout_of

if TYPE_CHECKING:
    from pyspark.sql import Column

_CORRUPT = "__streamling_corrupt"
#: the text of a message, for numbers that are read from it alone
_DOCUMENT = "__streamling_document"
_SHOWN = 200


class JsonFormat:
    """Columns come in alphabetical order, all nullable; keys that are no columns are ignored."""

    def __init__(self, schema: Mapping[str, str], instead: Instead) -> None:
        self._instead = instead
        self._schema = pa.schema([pa.field(name, parse_type(schema[name])) for name in sorted(schema)])

    def load(self) -> None:
        """Whether Spark can hold the types is known without asking anyone."""
        from streamling.types.spark import carrier

        for field in self._schema:
            try:
                carrier(field.type)
            except StreamlingError as error:
                raise error.context(f"schema.{field.name}") from None

    def learn(self, id: int, *, of_key: bool) -> None:
        raise AssertionError("JSON messages have no schema ids")

    def schema(self) -> pa.Schema:
        return self._schema

    def primary_key(self) -> tuple[str, ...]:
        return ()

    def payloads(self) -> dict[str, Column]:
        from pyspark.sql import functions as f

        fields = ", ".join(f"{quoted(field.name)} {_parsed_as(field.type)}" for field in self._schema)
        schema = literal(f"{fields}, {_CORRUPT} STRING")
        options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}')"
        text = "CAST(value AS STRING)"
        shown = f"left({text}, {_SHOWN})"
        whole = {}
        if any(_has_fractions(field.type) for field in self._schema):
            whole[_DOCUMENT] = f.expr(f"IF(is_valid_utf8({text}), {text}, NULL)")
        return {
            **whole,
            "payload": f.expr(
                f"""CASE WHEN value IS NULL THEN NULL
                WHEN is_valid_utf8({text}) AND ltrim({text}) LIKE '{{%' THEN from_json({text}, {schema}, {options})
                ELSE {self._instead(JSON_TEXT, f"IF(is_valid_utf8({text}), {shown}, 'it is no UTF-8')")} END"""
            ),
        }

    def key_text(self) -> Column:
        """Whatever the values are, keys are text."""
        return plain_key()

    def _wide(self, field: pa.Field, place: str) -> str:
        if not _has_fractions(field.type):
            return call(PARSE, place, types=[field.type])
        return call(MEMBER, _DOCUMENT, literal(field.name), types=[field.type])

    def checks(self) -> dict[str, str]:
        bad = self._instead(JSON_TEXT, f"left(payload.{_CORRUPT}, {_SHOWN})")
        return {"checked": f"IF(payload.{_CORRUPT} IS NULL, payload, {bad})"}

    def values(self) -> Sequence[tuple[pa.Field, str]]:
        return [(field, self._value(field)) for field in self._schema]

    def complaints(self, places: Mapping[str, str]) -> Sequence[Complaint]:
        text = f"CAST({MESSAGE}.value AS STRING)"
        no_object = f"IF(is_valid_utf8({text}), left({text}, {_SHOWN}), 'it is no UTF-8')"
        return [
            Complaint(f"{MESSAGE}.value IS NOT NULL AND checked IS NULL", JSON_TEXT, no_object),
            *(
                Complaint(f"{place} IS NOT NULL AND {places[field.name]} IS NULL", JSON_VALUE, _shown(field, place))
                for field in self._schema
                if layout_of(field.type) or _conversion(field.type)
                for place in (_place(field),)
            ),
        ]

    def _value(self, field: pa.Field) -> str:
        place = _place(field)
        bad = self._instead(JSON_VALUE, _shown(field, place))
        if layout := layout_of(field.type):
            # whether the message is an object at all is told by the first of the two
            return f"IF(checked IS NULL, NULL, {checked(self._wide(field, place), layout, bad)})"
        conversion = _conversion(field.type)
        if conversion is None:
            return place
        return f"IF({place} IS NULL, NULL, coalesce({conversion.replace('{0}', place)}, {bad}))"


def _place(field: pa.Field) -> str:
    return f"checked.{quoted(field.name)}"


def _shown(field: pa.Field, place: str) -> str:
    return f"concat({literal(field.name + ' = ')}, CAST({place} AS STRING))"


def _has_fractions(type_: pa.DataType) -> bool:
    """Whether a type is one of numbers whose JSON Spark cannot read exactly: it makes doubles of them."""
    layout = layout_of(type_)
    return layout is not None and layout.scale > 0


def _parsed_as(type_: pa.DataType) -> str:
    """The Spark type that the JSON parser is asked for; text where it would not read what we want."""
    from streamling.types.spark import to_spark_type

    return "STRING" if _from_text(type_) else type_sql(to_spark_type(type_))


def _from_text(type_: pa.DataType) -> bool:
    """Whether values are read as text first: numbers may come as strings, and times have one spelling for us."""
    temporal_or_binary = pa.types.is_temporal(type_) or pa.types.is_binary(type_)
    return bool(pa.types.is_integer(type_) or temporal_or_binary or is_wide(type_))


def _conversion(type_: pa.DataType) -> str | None:
    """Spark SQL from what was parsed (``{0}``) to the column's value, NULL when it does not fit."""
    from streamling.types.spark import to_spark_type

    if pa.types.is_timestamp(type_):
        return "CAST(try_cast({0} AS TIMESTAMP) AS TIMESTAMP_NTZ)"  # a zone in the text counts
    if pa.types.is_binary(type_):
        return "try_to_binary({0}, 'hex')"
    if not _from_text(type_):
        return None
    value = f"try_cast({{0}} AS {type_sql(to_spark_type(type_))})"
    if pa.types.is_unsigned_integer(type_):
        return f"IF({value} BETWEEN 0 AND {2**type_.bit_width - 1}, {value}, NULL)"
    return value
