"""Casts from text to numbers, dates and times, as in DataFusion.

Spark's casts accept more formats (``1.5d``, ``2024``, blanks around a date) and ignore the offset of a time.
"""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import literal
from streamling.sql.inference import type_of
from streamling.sql.library.declaration import fill, literal_text

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
    """``cast(value AS spelling)`` of a text; None if Spark's own cast is right, or the value is not a text."""
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
    """The text if it has one of the forms; otherwise one that makes the cast fail, or NULL if it must not fail."""
    written = literal_text(value)
    if written is not None and re.fullmatch(next(iter(forms)), written, re.ASCII):
        return value
    branches = " ".join(f"WHEN {{0}} RLIKE {_whole(form)} THEN {template}" for form, template in forms.items())
    other = "NULL" if cast != "CAST" else f"concat('not a {what}: ', {{0}})"
    return fill(f"CASE {branches} ELSE {other} END", [value], pa.string())


def _boolean(value: exp.Expr, cast: str) -> exp.Expr:
    """Every prefix of ``true``, ``false`` and ``yes``, and ``on`` and ``off``; Spark accepts only whole words and
    single letters."""
    true, false = (", ".join(map(literal, words)) for words in (_TRUE, _FALSE))
    template = f"CASE WHEN lower({{0}}) IN ({true}) THEN true WHEN lower({{0}}) IN ({false}) THEN false"
    return fill(f"{template} ELSE {cast}({{0}} AS BOOLEAN) END", [value], pa.bool_())


def _whole(pattern: str) -> str:
    """A pattern for the whole text, as a literal in a template."""
    return literal(f"^({pattern})\\z").replace("{", "{{").replace("}", "}}")
