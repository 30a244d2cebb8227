"""Casts between dates, times and numbers.

As a number, a time in DataFusion is in the units of its type: nanoseconds for a literal, microseconds or milliseconds
for a column, depending on its source. Spark uses seconds. Such a cast is rejected; functions make the unit explicit.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.inference import type_of
from streamling.sql.library.declaration import UnsupportedSql, fill

_TO_SECONDS = "write extract(epoch FROM x) for seconds"
_FROM_NUMBERS = "write to_timestamp(x) for seconds, to_timestamp_millis(x) or to_timestamp_micros(x)"
#: of a timestamp; Spark has no such cast
TIME_OF_DAY = "make_time(hour({0}), minute({0}), date_part('second', {0}))"


def time_cast(value: exp.Expr, type_: pa.DataType, cast: str = "CAST") -> exp.Expr | None:
    """``cast(value AS type_)`` where one of both is a date or time; None if Spark's own cast is right."""
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
