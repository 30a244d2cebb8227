"""JSON values as columns: Spark SQL from the text of a value to the value, exact or not at all."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from streamling.spark.sql_text import literal, type_sql
from streamling.sql.library.wide import PARSE
from streamling.sql.wide_calls import call, checked
from streamling.types.spark import to_spark_type
from streamling.types.wide import layout_of

#: Before the text of what is no string: a character that Unicode promises will never be one.
MARK: Final = "\ufdd0"

_DATE: Final = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ZONE: Final = r"(?:Z|[+\-][0-9]{2}(?::?[0-9]{2})?)?"
#: digits of a second by unit; zeros may follow
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 6}
_NUMBER: Final = r"^\s*+[+\-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+\-]?[0-9]++)?\s*+\z"
_WITH_EXPONENT: Final = r"^\s*+([+\-]?)(?=\.?[0-9])([0-9]*+)\.?([0-9]*+)[eE]([+\-]?[0-9]{1,4})\s*+\z"
_LARGEST_HALF: Final = 65504


def conversion(type_: pa.DataType, place: str, bad: str) -> str:
    """SQL for the value whose JSON is in ``place``: null where that is null, ``bad`` where it does not fit."""
    if pa.types.is_string(type_):
        return _text(place)
    if layout := layout_of(type_):
        parsed = call(PARSE, written(place), types=[type_])
        return f"IF({place} IS NULL, NULL, {checked(parsed, layout, bad)})"
    return f"IF({place} IS NULL, NULL, coalesce({converted(type_, place)}, {bad}))"


def matches(text: str, pattern: str) -> str:
    """SQL for whether a text has a form."""
    return f"{text} rlike {literal(pattern)}"


def written(place: str) -> str:
    """SQL for a value without its mark: the text of a string, or what stands in the message."""
    return f"IF(startswith({place}, '{MARK}'), substring({place}, 2), {place})"


def _text(place: str) -> str:
    """Numbers inside of an object or array are marked, too."""
    marked = literal(f'"{MARK}([^"]++)"')
    inside = f"regexp_replace({place}, {marked}, '$1')"
    nested = f"IF(contains({place}, '{MARK}'), {inside}, {place})"
    return f"IF(startswith({place}, '{MARK}'), substring({place}, 2), {nested})"


def converted(type_: pa.DataType, place: str) -> str:
    """SQL for the value, null where it does not fit."""
    kind, text = type_sql(to_spark_type(type_)), written(place)
    if pa.types.is_boolean(type_):
        return f"CASE {place} WHEN '{MARK}true' THEN true WHEN '{MARK}false' THEN false END"
    if pa.types.is_floating(type_):
        return _float(type_, kind, place)
    if pa.types.is_uint64(type_):
        is_whole = matches(text, r"^\s*+[+]?[0-9]++\s*+\z")
        return f"IF({is_whole} AND {_fits(type_, text, kind)})"
    if pa.types.is_unsigned_integer(type_):
        return f"IF({_fits(type_, text, kind)})"
    if pa.types.is_integer(type_) or pa.types.is_duration(type_):
        return f"try_cast({text} AS {kind})"
    if pa.types.is_decimal(type_):
        return _decimal(type_, kind, text)
    if pa.types.is_temporal(type_):
        return temporal(type_, kind, place)
    if pa.types.is_binary(type_):
        return f"IF(length({place}) % 2 = 0, try_to_binary({place}, 'hex'), NULL)"
    return "NULL"  # the type null


def _fits(type_: pa.DataType, text: str, kind: str) -> str:
    value = f"try_cast({text} AS {kind})"
    return f"{value} BETWEEN 0 AND {2**type_.bit_width - 1}, {value}, NULL"


def _float(type_: pa.DataType, kind: str, place: str) -> str:
    """The nearest there is; what is beyond the largest does not fit."""
    is_number = f"(startswith({place}, '{MARK}') OR {matches(place, _NUMBER)})"
    value = f"try_cast({written(place)} AS {kind})"
    most = str(_LARGEST_HALF) if pa.types.is_float16(type_) else f"CAST('Infinity' AS {kind})"
    within = f"abs({value}) {'<=' if pa.types.is_float16(type_) else '<'} {most}"
    return f"IF({is_number} AND {within}, {value}, NULL)"


def _decimal(type_: pa.DataType, kind: str, text: str) -> str:
    """No digit may be lost behind the point. Texts with too many are looked at closely: most have none to lose."""
    exact = rf"^\s*+[+\-]?[0-9]*+(?:\.[0-9]{{0,{type_.scale}}}0*+)?\s*+\z"
    plain = _without_exponent(text)
    exponent = f"IF({matches(plain, exact)}, try_cast({plain} AS {kind}), NULL)"
    point = f"instr({text}, '.')"
    return f"""CASE WHEN contains({text}, 'e') OR contains({text}, 'E') THEN {exponent}
        WHEN {point} = 0 OR length({text}) - {point} <= {type_.scale} OR {matches(text, exact)}
        THEN try_cast({text} AS {kind}) END"""


def _without_exponent(text: str) -> str:
    """SQL for a number with an exponent as one without; null for what is none. The parts are named by a lambda: the
    expression would have each of them several times."""
    parts = f"split(regexp_replace({text}, {literal(_WITH_EXPONENT)}, '$1|$2|$2$3|$4'), '[|]')"
    sign, digits = "get(p, 0)", "get(p, 2)"
    point = "(length(get(p, 1)) + try_cast(get(p, 3) AS INT))"
    plain = f"""concat({sign}, CASE WHEN {point} <= 0 THEN concat('0.', repeat('0', -{point}), {digits})
        WHEN {point} >= length({digits}) THEN rpad({digits}, {point}, '0')
        ELSE concat(left({digits}, {point}), '.', substring({digits}, {point} + 1)) END)"""
    return f"get(transform(array({parts}), p -> {plain}), 0)"


def temporal(type_: pa.DataType, kind: str, place: str) -> str:
    """ISO 8601; a zone in a timestamp counts."""
    if pa.types.is_date(type_):
        is_date = matches(place, rf"^{_DATE}\z")
        return f"IF({is_date}, try_cast({place} AS DATE), NULL)"
    digits = _DIGITS[type_.unit]
    clock = rf"[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:\.[0-9]{{1,{digits}}}0*+)?)?"
    if pa.types.is_time(type_):
        is_time = matches(place, rf"^{clock}\z")
        return f"IF({is_time}, try_cast({place} AS {kind}), NULL)"
    value = f"CAST(try_cast({place} AS TIMESTAMP) AS TIMESTAMP_NTZ)"
    within = "BETWEEN TIMESTAMP_NTZ'0001-01-01 00:00:00' AND TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"
    is_moment = matches(place, rf"^{_DATE}(?:[T ]{clock}{_ZONE})?\z")
    return f"IF({is_moment} AND {value} {within}, {value}, NULL)"
