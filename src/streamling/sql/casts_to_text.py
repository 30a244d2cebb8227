"""Casts from numbers and times to text, as in Arrow: ``1e300``, ``2024-05-06T07:08:09.500``."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.inference import type_of
from streamling.sql.library.declaration import fill

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


_MOMENT = _written("{0}", "yyyy-MM-dd\\'T\\'HH:mm:ss")
_TIME = _written("TIMESTAMP_NTZ'1970-01-01 00:00:00' + ({0} - TIME'00:00:00')", "HH:mm:ss")
#: Spark's cast does not check the bytes
_BYTES = "validate_utf8(CAST({0} AS STRING))"


def as_text(value: exp.Expr, cast: str = "CAST") -> exp.Expr:
    """``CAST(value AS STRING)`` with DataFusion's result. Fails only for text that is not UTF-8."""
    template = special(type_of(value)) or cast + "({0} AS STRING)"
    return fill(f"try_{template}" if template == _BYTES and cast == "TRY_CAST" else template, [value], pa.string())


def special(type_: pa.DataType | None) -> str | None:
    """The template for values of a type whose text differs in Spark."""
    if type_ is not None and pa.types.is_floating(type_):
        return _SINGLE if type_ == pa.float32() else _DOUBLE
    if type_ is not None and pa.types.is_timestamp(type_):
        return f"concat({_MOMENT}, 'Z')" if type_.tz else _MOMENT
    if type_ is not None and pa.types.is_time(type_):
        return _TIME
    if type_ is not None and pa.types.is_list(type_):
        return _of_list(type_.value_type)
    return _BYTES if is_binary(type_) else None


def _of_list(element: pa.DataType) -> str | None:
    """NULL becomes an empty text; Spark writes null. DataFusion has no text for structs and maps."""
    if pa.types.is_struct(element) or pa.types.is_map(element) or is_binary(element):
        return None
    text = special(element) or "CAST({0} AS STRING)"
    name = f"__t{text.count('->')}"
    return f"concat('[', array_join(transform({{0}}, {name} -> {text.format(name)}), ', ', ''), ']')"


def is_binary(type_: pa.DataType | None) -> bool:
    return type_ is not None and bool(pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_))
