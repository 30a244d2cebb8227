"""Conversions to ClickHouse's dates and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.clickhouse.encode.values import Encode, check_between
from streamling.connectors.clickhouse.type_text import ClickHouseType

#: ticks per second and precision of each of Arrow's units
_UNITS: Final = {"s": (1, 0), "ms": (10**3, 3), "us": (10**6, 6), "ns": (10**9, 9)}
_ROUND: Final = {"s": "second", "ms": "millisecond", "us": "microsecond"}
_DAY: Final = 86_400
#: DateTime is an unsigned number of 32 bits, Date one of 16
_LAST_SECOND: Final = 2**32 - 1
_LAST_DAY: Final = 2**16 - 1


@dataclass(frozen=True)
class Calendar:
    """The days, counted from 1970-01-01, that ``Date32`` and ``DateTime64`` of a server can hold."""

    first: int
    last: int


#: 1900-01-01 to 2299-12-31, which every server supports
NARROW_CALENDAR: Final = Calendar(-25_567, 120_529)
#: 0000-01-01 to 9999-12-31, which newer servers support
WIDE_CALENDAR: Final = Calendar(-719_528, 2_932_896)


def time_encoder(logical: pa.DataType, target: ClickHouseType, calendar: Calendar) -> Encode | None:
    """Return the conversion of values of ``logical`` to a date or time; None if ``target`` is neither or does not
    fit."""
    types = pa.types
    match target.name:
        case "Date" | "Date32" if types.is_date(logical):
            days = Calendar(0, _LAST_DAY) if target.name == "Date" else calendar
            return lambda column: _dates(column, days)
        case "DateTime" if _is_instant(logical):
            return lambda column: _instants(column, 0, (0, _LAST_SECOND))
        case "DateTime64" if _is_instant(logical):
            precision = _precision(target, default=3)
            seconds = _seconds(calendar, precision)
            return lambda column: _instants(column, precision, seconds)
        case "Time" if types.is_time(logical):
            return lambda column: _time_of_day(column).cast(pa.int32())
        case "Time64" if types.is_time(logical):
            return lambda column: column.cast(
                pa.time64("ns" if _precision(target, default=3) > 6 else "us"), safe=False
            )
        case _:
            return None


def _is_instant(logical: pa.DataType) -> bool:
    """Return whether values of the type can be points in time: a date is its midnight, a time of day that of
    1970-01-01, an integer a number of ticks. All are in UTC."""
    types = pa.types
    return any(test(logical) for test in (types.is_timestamp, types.is_date, types.is_time, types.is_integer))


def _precision(target: ClickHouseType, *, default: int) -> int:
    return next((argument for argument in target.arguments if isinstance(argument, int)), default)


def _seconds(calendar: Calendar, precision: int) -> tuple[int, int]:
    """Return the first and the last second that `DateTime64` can hold: it is a number of ticks in 64 bits."""
    most = (2**63 - 1) // 10**precision
    return max(calendar.first * _DAY, -most), min((calendar.last + 1) * _DAY - 1, most)


def _dates(column: pa.Array, days: Calendar) -> pa.Array:
    column = column.cast(pa.date32())
    check_between(
        column.view(pa.int32()), days.first, days.last, lambda day: pa.scalar(day, pa.date32()).cast(pa.string())
    )
    return column


def _time_of_day(column: pa.Array) -> pa.Array:
    return column.cast(pa.time32("s"), safe=False)


def _instants(column: pa.Array, precision: int, seconds: tuple[int, int]) -> pa.Array:
    """Return timestamps within ``seconds``, cut off to a unit that is at least as fine as ``precision``."""
    types = pa.types
    if types.is_integer(column.type):
        column = _ticks(column, precision)
    elif types.is_date(column.type):
        column = column.cast(pa.date32()).cast(pa.timestamp("s"))
    else:
        unit = column.type.unit
        number = pa.int32() if types.is_time32(column.type) else pa.int64()
        column = column.view(number).cast(pa.int64()).view(pa.timestamp(unit))  # without zone: the numbers are in UTC
    return _cut_off(_within(column, seconds), precision)


def _ticks(column: pa.Array, precision: int) -> pa.Array:
    """Convert numbers of ticks to timestamps."""
    unit, (_, digits) = next(item for item in _UNITS.items() if item[1][1] >= precision)
    factor = 10 ** (digits - precision)
    check_between(column, -(2**63) // factor + 1, (2**63 - 1) // factor)
    ticks = column.cast(pa.int64())
    return (ticks if factor == 1 else pc.multiply(ticks, factor)).view(pa.timestamp(unit))


def _within(column: pa.Array, seconds: tuple[int, int]) -> pa.Array:
    per_second, _ = _UNITS[column.type.unit]
    first, last = seconds[0] * per_second, (seconds[1] + 1) * per_second - 1
    check_between(column.view(pa.int64()), first, last, lambda ticks: _shown(ticks, per_second))
    return column


def _cut_off(column: pa.Array, precision: int) -> pa.Array:
    """Floor timestamps to the coarsest unit that has ``precision`` digits; those that are coarser stay."""
    unit, (_, digits) = next(item for item in _UNITS.items() if item[1][1] >= precision)
    if _UNITS[column.type.unit][1] <= digits:
        return column
    return pc.floor_temporal(column, unit=_ROUND[unit]).cast(pa.timestamp(unit))


def _shown(ticks: int, per_second: int) -> object:
    """Return a point in time as text. Python and Arrow print only the years 1 to 9999; others are numbers of
    seconds."""
    seconds = ticks // per_second
    if abs(seconds) > WIDE_CALENDAR.last * _DAY:
        return f"{seconds} seconds"
    return pa.scalar(seconds, pa.timestamp("s")).cast(pa.string())
