"""The quick way for JSON messages: what Spark's parser reads exactly into the declared types.

Most messages need no more. Where it might have changed a value (a number in a text column, a decimal with many digits)
or refused one that fits (a number written as a string), the message is read again from its text: see
`streamling.sources._kafka_json`.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from streamling.sources._kafka_json_values import MARK, converted, temporal
from streamling.spark.sql_text import literal, type_sql
from streamling.types.spark import to_spark_type
from streamling.types.wide import layout_of

_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+\-]?[0-9]++)?+(?=[ \t\n\r]*+[,}\]])"
#: first characters of what Spark's parser hands over as text although it is none, and such texts
_FIRST: Final = ", ".join(str(ord(character)) for character in '"-0123456789[{')
_WORDS: Final = "'true', 'false', 'NaN', 'Infinity', '-Infinity'"


def is_quick(schema: pa.Schema) -> bool:
    """Whether there is a quick way for these columns."""
    return not any(layout_of(field.type) or pa.types.is_binary(field.type) for field in schema)


def with_quoted_decimals(schema: pa.Schema, document: str) -> str:
    """SQL for a document in which the numbers of decimal columns are marked strings. A name in quotes is always a key
    there, or the document is no JSON; keys with escapes are left alone, and such messages read again."""
    names = [re.escape(field.name) for field in schema if _is_decimal(field.type)]
    if not names:
        return document
    pattern = rf'(?<!\\)"({"|".join(names)})"[ \t\n\r]*+:[ \t\n\r]*+({_NUMBER})'
    marked = f'"$1":"{MARK}$2"'
    return f"regexp_replace({document}, {literal(pattern)}, {literal(marked)})"


def parsed_as(type_: pa.DataType) -> str:
    """The Spark type that the parser is asked for; of bytes it takes 128 for -128."""
    if pa.types.is_int8(type_):
        return "INT"
    return "STRING" if _is_text(type_) else type_sql(to_spark_type(type_))


def value(type_: pa.DataType, place: str) -> str | None:
    """SQL for the column's value of the parsed one, null where that does not fit; None: it is the same."""
    kind = type_sql(to_spark_type(type_))
    if pa.types.is_int8(type_):
        return f"try_cast({place} AS {kind})"
    if _is_decimal(type_):
        return f"IF(startswith({place}, '{MARK}'), {converted(type_, place)}, NULL)"
    if pa.types.is_temporal(type_) and not pa.types.is_duration(type_):
        return temporal(type_, kind, place)
    return f"CAST(NULL AS {kind})" if pa.types.is_null(type_) else None


def is_exact(type_: pa.DataType, place: str) -> str:
    """SQL for whether the parsed value, which is not null and has no `value` of its own, is the one in the message."""
    if pa.types.is_floating(type_):
        most = "65504" if pa.types.is_float16(type_) else "1.7976931348623157E308D"
        return f"abs({place}) <= {most}" if not pa.types.is_float32(type_) else f"abs({place}) < float('Infinity')"
    if pa.types.is_unsigned_integer(type_):
        return f"{place} BETWEEN 0 AND {2**type_.bit_width - 1}"
    if pa.types.is_string(type_):
        return f"ascii({place}) NOT IN ({_FIRST}) AND {place} NOT IN ({_WORDS})"
    return "true"


def _is_decimal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type_) or pa.types.is_uint64(type_))


def _is_text(type_: pa.DataType) -> bool:
    moment = pa.types.is_temporal(type_) and not pa.types.is_duration(type_)
    return bool(moment or pa.types.is_string(type_) or pa.types.is_null(type_) or _is_decimal(type_))
