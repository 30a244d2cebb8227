"""Casts of text, numbers, dates and times, as in DataFusion and Arrow.

Spark's casts from text accept more formats (``1.5d``, ``2024``, blanks around a date) and ignore the offset of a time.
As text, Arrow writes ``1e300`` and ``2024-05-06T07:08:09.500``.

As a number, a time in DataFusion is in the units of its type: nanoseconds for a literal, microseconds or milliseconds
for a column, depending on its source. Spark uses seconds. Such a cast is rejected; functions make the unit explicit.
"""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import literal
from streamling.sql.fragments import UnsupportedSql, fill, literal_text, type_of

_CLOCK = r"\d{2}:\d{2}:\d{2}(\.\d+)?"
_ZONE = r" ?(Z|[+-]\d{2}(:?\d{2})?|[A-Z][A-Za-z_]*(/[A-Za-z_]+)*)"
#: separators that Spark does not read in lower case
_LOWER = rf"\d{{4}}-\d{{2}}-\d{{2}}(t{_CLOCK}({_ZONE}|z)?|[ T]{_CLOCK}z)"
_MOMENT = rf"\d{{4}}-\d{{2}}-\d{{2}}([ T]{_CLOCK}({_ZONE})?)?"
_DAY = rf"\d{{4}}-\d{{1,2}}-\d{{1,2}}([ T]{_CLOCK}({_ZONE})?)?"
_DIGITS = r"\d{8}"
_TIME = r"\d{2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?"
_FLOATING = r"\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])\s*"
_DECIMAL = r"\s*[+-]?(\d+\.?\d*|\.\d+)\s*"

#: forms of a text, and how to write each for Spark
_Forms = dict[str, str]


def _template(pattern: str, replacement: str, value: str) -> str:
    return f"regexp_replace({value}, {literal(pattern)}, '{replacement}')"


_CAPITALS = _template(r"(?<=\d)z$", "Z", _template(r"(?<=\d)t(?=\d)", "T", "{0}"))
_DASHED = "concat(left({0}, 4), '-', substring({0}, 5, 2), '-', right({0}, 2))"
_MOMENTS: _Forms = {_MOMENT: "{0}", _LOWER: _CAPITALS}
_DAYS: _Forms = {_DAY: "{0}", _LOWER: _CAPITALS, _DIGITS: _DASHED}

_TRUE, _FALSE = ("on", "tr", "tru", "ye"), ("of", "off", "fa", "fal", "fals")


def from_text(value: exp.Expr, spelling: str, type_: pa.DataType, cast: str = "CAST") -> exp.Expr | None:
    """Return ``cast(value AS spelling)`` of a text; None if Spark's own cast is right, or the value is not a text."""
    if not pa.types.is_string(type_of(value) or pa.null()):
        return None
    if pa.types.is_timestamp(type_):
        moment = fill(f"{cast}({{0}} AS TIMESTAMP_LTZ)", [_fitting(value, _MOMENTS, "timestamp", cast)])
        return fill("{0}" if type_.tz else "CAST({0} AS TIMESTAMP_NTZ)", [moment], type_)
    if pa.types.is_date(type_):
        moment = fill(f"{cast}({{0}} AS TIMESTAMP_LTZ)", [_fitting(value, _DAYS, "date", cast)])
        return fill("CAST({0} AS DATE)", [moment], type_)
    if pa.types.is_boolean(type_):
        return _boolean(value, cast)
    pattern, what = _TIME, "time"
    if not pa.types.is_time(type_):
        pattern, what = (_FLOATING if pa.types.is_floating(type_) else _DECIMAL), "number"
        if not pa.types.is_floating(type_) and not pa.types.is_decimal(type_):
            return None
    return fill(f"{cast}({{0}} AS {spelling})", [_fitting(value, {pattern: "{0}"}, what, cast)], type_)


def _fitting(value: exp.Expr, forms: _Forms, what: str, cast: str) -> exp.Expr:
    """Return the text if it has one of the forms; otherwise one that makes the cast fail, or NULL if it must not
    fail."""
    written = literal_text(value)
    if written is not None and re.fullmatch(next(iter(forms)), written, re.ASCII):
        return value
    branches = " ".join(f"WHEN {{0}} RLIKE {_whole(form)} THEN {template}" for form, template in forms.items())
    other = "NULL" if cast != "CAST" else f"concat('not a {what}: ', {{0}})"
    return fill(f"CASE {branches} ELSE {other} END", [value], pa.string())


def _boolean(value: exp.Expr, cast: str) -> exp.Expr:
    """Return every prefix of ``true``, ``false`` and ``yes``, and ``on`` and ``off``; Spark accepts only whole words
    and single letters."""
    true, false = (", ".join(map(literal, words)) for words in (_TRUE, _FALSE))
    template = f"CASE WHEN lower({{0}}) IN ({true}) THEN true WHEN lower({{0}}) IN ({false}) THEN false"
    return fill(f"{template} ELSE {cast}({{0}} AS BOOLEAN) END", [value], pa.bool_())


def _whole(pattern: str) -> str:
    """Return a pattern for the whole text, as a literal in a template."""
    return literal(f"^({pattern})\\z").replace("{", "{{").replace("}", "}}")


def from_decimal(value: exp.Expr, spelling: str, type_: pa.DataType, cast: str = "CAST") -> exp.Expr | None:
    """Return ``cast(value AS spelling)`` of a decimal to an integer; None if Spark's own cast is right, or the value is
    not a decimal. Spark makes a double of it first, unless it becomes a BIGINT: -0.999999999999999999 would be -1."""
    if spelling not in ("TINYINT", "SMALLINT", "INT") or not pa.types.is_decimal(type_of(value) or pa.null()):
        return None
    return fill(f"{cast}({cast}({{0}} AS BIGINT) AS {spelling})", [value], type_)


#: Spark uses exponents from 10⁷ and below 10⁻³, Arrow from 10¹⁶ and below 10⁻⁵, for FLOATs from 10¹³ and below 10⁻⁶;
#: the digits are the same
_BETWEEN = "(abs({0}) >= 1e7D AND abs({0}) < 1e16D OR abs({0}) < 1e-3D AND abs({0}) >= 1e-5D)"
_BETWEEN_SINGLES = "(abs({0}) >= 1e7F AND abs({0}) < 1e13F OR abs({0}) < 1e-3F AND abs({0}) >= 1e-6F)"
_PLAIN = "regexp_replace(rtrim('0', CAST(CAST(CAST({0} AS STRING) AS DECIMAL(38, 21)) AS STRING)), '\\\\.$', '.0')"
_SHORT = "replace(replace(replace(CAST({0} AS STRING), 'Infinity', 'inf'), '.0E', 'e'), 'E', 'e')"
_DOUBLE, _SINGLE = (f"if({between}, {_PLAIN}, {_SHORT})" for between in (_BETWEEN, _BETWEEN_SINGLES))


#: no fraction, or three or six digits
_FRACTION = "CAST(date_part('second', {0}) * 1000000 AS BIGINT) % 1000000"


def _written(value: str, form: str) -> str:
    short, long = f"WHEN {_FRACTION} = 0 THEN '{form}'", f"WHEN {_FRACTION} % 1000 = 0 THEN '{form}.SSS'"
    return f"date_format({value}, CASE {short} {long} ELSE '{form}.SSSSSS' END)"


_MOMENT_TEXT = _written("{0}", "yyyy-MM-dd\\'T\\'HH:mm:ss")
_TIME_TEXT = _written("TIMESTAMP_NTZ'1970-01-01 00:00:00' + ({0} - TIME'00:00:00')", "HH:mm:ss")
#: Spark's cast does not check the bytes
_BYTES = "validate_utf8(CAST({0} AS STRING))"


def as_text(value: exp.Expr, cast: str = "CAST") -> exp.Expr:
    """Return ``CAST(value AS STRING)`` with DataFusion's result. Fails only for text that is not UTF-8."""
    template = special(type_of(value)) or cast + "({0} AS STRING)"
    return fill(f"try_{template}" if template == _BYTES and cast == "TRY_CAST" else template, [value], pa.string())


def special(type_: pa.DataType | None) -> str | None:
    """Return the template for values of a type whose text differs in Spark."""
    if type_ is not None and pa.types.is_floating(type_):
        return _SINGLE if type_ == pa.float32() else _DOUBLE
    if type_ is not None and pa.types.is_timestamp(type_):
        return f"concat({_MOMENT_TEXT}, 'Z')" if type_.tz else _MOMENT_TEXT
    if type_ is not None and pa.types.is_time(type_):
        return _TIME_TEXT
    if type_ is not None and pa.types.is_list(type_):
        return _of_list(type_.value_type)
    return _BYTES if is_binary(type_) else None


def _of_list(element: pa.DataType) -> str | None:
    """Return SQL of a list as text. NULL becomes an empty text; Spark writes null. DataFusion has no text for structs
    and maps."""
    if pa.types.is_struct(element) or pa.types.is_map(element) or is_binary(element):
        return None
    text = special(element) or "CAST({0} AS STRING)"
    name = f"__t{text.count('->')}"
    return f"concat('[', array_join(transform({{0}}, {name} -> {text.format(name)}), ', ', ''), ']')"


def is_binary(type_: pa.DataType | None) -> bool:
    return type_ is not None and bool(pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_))


_TO_SECONDS = "write extract(epoch FROM x) for seconds"
_FROM_NUMBERS = "write to_timestamp(x) for seconds, to_timestamp_millis(x) or to_timestamp_micros(x)"
#: of a timestamp; Spark has no such cast
TIME_OF_DAY = "make_time(hour({0}), minute({0}), date_part('second', {0}))"


def time_cast(value: exp.Expr, type_: pa.DataType, cast: str = "CAST") -> exp.Expr | None:
    """Return ``cast(value AS type_)`` where one of both is a date or time; None if Spark's own cast is right."""
    source = type_of(value)
    if source is None:
        return None
    if _counts_units(source) and _is_number(type_):
        raise UnsupportedSql("a cast from a time to a number has no defined unit", _TO_SECONDS)
    if _is_number(source) and pa.types.is_timestamp(type_):
        raise UnsupportedSql("a cast from a number to a timestamp has no defined unit", _FROM_NUMBERS)
    if pa.types.is_date(source) and type_ in (pa.int32(), pa.int64()):
        return fill("unix_date({0})" if type_ == pa.int32() else "CAST(unix_date({0}) AS BIGINT)", [value], type_)
    if source in (pa.int32(), pa.int64()) and pa.types.is_date(type_):
        return fill(f"date_from_unix_date({cast}({{0}} AS INT))", [value], type_)
    if pa.types.is_timestamp(source) and pa.types.is_time(type_):
        return fill(TIME_OF_DAY, [value], type_)
    return None


def _counts_units(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_time(type_) or pa.types.is_duration(type_))


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))
