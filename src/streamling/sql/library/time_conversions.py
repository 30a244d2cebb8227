"""Conversions of dates and times: from numbers, and between the formats of DataFusion and Spark."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import fill, type_of

_NTZ = pa.timestamp("us")
_LONGS = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Unit:
    name: str
    #: microseconds since 1970 from a BIGINT of this unit
    to_micros: str
    #: how many of them a timestamp can be away from 1970
    fits: range


def _around(most: int) -> range:
    return range(-most, most + 1)


SECONDS = Unit("seconds", "{0} * 1000000", _around(_LONGS.stop // 1_000_000))
MILLIS = Unit("milliseconds", "{0} * 1000", _around(_LONGS.stop // 1000))
MICROS = Unit("microseconds", "{0}", _LONGS)
NANOS = Unit("nanoseconds", "{0} DIV 1000", _LONGS)

#: DataFusion multiplies by 10⁹ and cuts nanoseconds off; numbers that are too large for that have no nanoseconds here
_OF_DOUBLE = "if(abs({0}) < 9.2e9D, CAST({0} * 1000000000D AS BIGINT) DIV 1000, CAST({0} * 1000000D AS BIGINT))"
#: exact, whatever its digits
_OF_DECIMAL = "CAST({0} AS BIGINT) * 1000000 + CAST(CAST({0} % 1 AS DECIMAL(30, 24)) * 1000000 AS BIGINT)"


def is_number(value: exp.Expr) -> bool:
    type_ = type_of(value) or pa.null()
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def moment_from_number(function: str, value: exp.Expr, unit: Unit) -> exp.Expr:
    """Return the time at a number of whole units; a fraction is cut off."""
    micros = unit.to_micros.format("CAST({0} AS BIGINT)")
    return _moment(function, value, unit, micros)


def moment_from_seconds(function: str, value: exp.Expr) -> exp.Expr:
    """Return the time at a number of seconds, with a fraction to the microsecond."""
    if pa.types.is_floating(type_of(value)):
        return _moment(function, value, SECONDS, _OF_DOUBLE)
    if pa.types.is_decimal(type_of(value)):
        return _moment(function, value, SECONDS, _OF_DECIMAL)
    return moment_from_number(function, value, SECONDS)


def day_from_number(function: str, value: exp.Expr) -> exp.Expr:
    """Return the date at a number of whole days."""
    then = "date_from_unix_date(CAST({0} AS INT))"
    return _within(function, value, range(-(2**31), 2**31), then, "days since 1970 are not a date", pa.date32())


def whole_number(function: str, value: exp.Expr) -> exp.Expr:
    """Return a BIGINT without the fraction."""
    return _within(function, value, _LONGS, "CAST({0} AS BIGINT)", "does not fit into BIGINT", pa.int64())


def _moment(function: str, value: exp.Expr, unit: Unit, micros: str) -> exp.Expr:
    then = f"CAST(timestamp_micros({micros}) AS TIMESTAMP_NTZ)"
    reason = f"{unit.name} since 1970 are not a time: a timestamp has the years -290308 to 294247"
    return _within(function, value, unit.fits, then, reason, _NTZ)


def _within(function: str, value: exp.Expr, fits: range, then: str, otherwise: str, type_: pa.DataType) -> exp.Expr:
    if fits == _LONGS and type_of(value) in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        return fill(then, [value], type_)
    # NaN is larger than every number
    within = f"{{0}} IS NULL OR {{0}} BETWEEN {fits.start} AND {fits.stop - 1}"
    error = f"raise_error(concat('{function}(): ', CAST({{0}} AS STRING), ' {otherwise}'))"
    return fill(f"if({within}, {then}, {error})", [value], type_)


_CODES = {
    "Y": "yyyy",
    "y": "yy",
    "m": "MM",
    "d": "dd",
    "e": "d",
    "j": "DDD",
    "H": "HH",
    "I": "hh",
    "M": "mm",
    "S": "ss",
    "p": "a",
    "b": "MMM",
    "h": "MMM",
    "B": "MMMM",
    "a": "EEE",
    "A": "EEEE",
    "F": "yyyy-MM-dd",
    "T": "HH:mm:ss",
    "R": "HH:mm",
    "D": "MM/dd/yy",
    "-d": "d",
    "-m": "M",
    "-H": "H",
    "-I": "h",
    "f": "SSSSSSSSS",
    "3f": "SSS",
    "6f": "SSSSSS",
    "9f": "SSSSSSSSS",
    ".3f": ".SSS",
    ".6f": ".SSSSSS",
    ".9f": ".SSSSSSSSS",
    "z": "xx",
    ":z": "xxx",
    "%": "%",
}


def spark_format(text: str) -> str | None:
    """Return ``text`` for Spark; unchanged if it has no ``%``, None if a code has no equivalent."""
    if "%" not in text:
        return text
    start, *parts = text.split("%")
    spelled = _quoted(start)
    while parts:
        part = parts.pop(0)
        if not part and parts:  # %% is a percent sign
            spelled += "%" + _quoted(parts.pop(0))
            continue
        code = next((part[:length] for length in (3, 2, 1) if part[:length] in _CODES), None)
        if code is None:
            return None
        spelled += _CODES[code] + _quoted(part[len(code) :])
    return spelled


def _quoted(literal: str) -> str:
    """Return a literal for a format: letters and brackets are literal only inside quotes."""
    plain = not any(char.isalpha() or char in "'[]{}#" for char in literal)
    return literal if plain else "'" + literal.replace("'", "''") + "'"
