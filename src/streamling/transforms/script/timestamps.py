"""Timestamps, dates and times as text, to the microsecond and without going through floats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from streamling.transforms.script.encoded_columns import (
    EncodedInput,
    EncodedOutput,
    InvalidValue,
    decode_each,
    join_texts,
)

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
#: limits of the years that text can represent, in microseconds since 1970
_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
_DAY = 86_400_000_000
_OUTSIDE = "years must be between 1 and 9999"
#: prefix of a number of milliseconds
_NUMBER = "@"


# ── into the sandbox ─────────────────────────────────────────────────────────────────────────────────────────


def timestamp_text(value: datetime) -> str:
    """Return ISO 8601 with zero, three or six fractional digits, as `Date` writes and reads it; Z for UTC."""
    fraction = "auto" if not value.microsecond else "microseconds" if value.microsecond % 1000 else "milliseconds"
    if value.tzinfo is None:
        return value.isoformat(timespec=fraction)
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=fraction) + "Z"


def timestamps(column: pa.Array) -> EncodedInput:
    """Format with Arrow, which takes 3 µs less per value than Python."""
    unzoned = pc.cast(column, pa.timestamp("us"), safe=False)
    _check_years(pc.cast(unzoned, pa.int64()))
    texts = pc.replace_substring(pc.cast(unzoned, pa.string()), " ", "T")
    texts = pc.replace_substring_regex(pc.replace_substring_regex(texts, "000$", ""), r"\.000$|\.$", "")
    return _join_texts(pc.binary_join_element_wise(texts, "Z", "") if column.type.tz else texts)


def dates(column: pa.Array) -> EncodedInput:
    days = pc.cast(column, pa.date32())
    _check_years(pc.cast(days, pa.int32()), _DAY)
    return _join_texts(pc.cast(days, pa.string()))


def times(column: pa.Array) -> EncodedInput:
    return _join_texts(
        pa.array([None if value is None else value.isoformat() for value in _times(column)], pa.string())
    )


def _times(column: pa.Array) -> list[time | None]:
    values: list[time | None] = pc.cast(column, pa.time64("us"), safe=False).to_pylist()
    return values


def _join_texts(texts: pa.Array) -> EncodedInput:
    return join_texts(pc.fill_null(texts, ""))


def _check_years(numbers: pa.Array, unit: int = 1) -> None:
    """Raise OverflowError unless all ``numbers``, in ``unit`` microseconds since 1970, are in the years that text can
    represent."""
    if _outside(numbers, unit):
        raise OverflowError(_OUTSIDE)


def _outside(numbers: pa.Array, unit: int) -> bool:
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is not None and (ends["min"] < _EARLIEST // unit or ends["max"] > _LATEST // unit)


# ── out of the sandbox ───────────────────────────────────────────────────────────────────────────────────────


def read_timestamps(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    texts = pa.array(output.texts_or_none(), pa.string())
    for known in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:  # all without a zone, or all with one: 0.1 µs per value instead of 2
            since_epoch = pc.cast(pc.cast(texts, known), pa.int64())
            _check_years(since_epoch)
        except (pa.ArrowInvalid, OverflowError):
            continue
        return _in_unit(since_epoch, type_, output)
    return _in_unit(pa.array(_each(output, microseconds), pa.int64()), type_, output)


def read_dates(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    texts = pa.array(output.texts_or_none(), pa.string())
    try:
        days = pc.cast(texts, pa.date32())
        _check_years(pc.cast(days, pa.int32()), _DAY)
    except (pa.ArrowInvalid, OverflowError):
        days = pa.array(_each(output, day), pa.date32())
    return pc.cast(days, type_)


def read_times(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    return pc.cast(pa.array(_each(output, time_of_day), pa.time64("us")), type_, safe=False)


def _each(output: EncodedOutput, read: Callable[[str], T]) -> list[T | None]:
    try:
        return decode_each(output, read)
    except InvalidValue as error:
        raise InvalidValue(error.index, error.shown.removeprefix(_NUMBER), error.reason) from error


def microseconds(text: str) -> int:
    """Return microseconds since 1970, UTC. A time without a zone is UTC."""
    if text.startswith(_NUMBER):
        number = Decimal(text[1:])
        if not _EARLIEST <= number * 1000 <= _LATEST:
            raise ValueError(_OUTSIDE)
        return round(number * 1000)
    value = datetime.fromisoformat(text.strip())
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _EPOCH) // _MICROSECOND


def day(text: str) -> date:
    return (_EPOCH + microseconds(text) * _MICROSECOND).date()


def time_of_day(text: str) -> time:
    """Parse a time, a whole timestamp, or milliseconds since midnight."""
    if text.startswith(_NUMBER) or "T" in text:
        moment = _EPOCH + microseconds(text) * _MICROSECOND
        if text.startswith(_NUMBER) and moment.date() != _EPOCH.date():
            raise ValueError("a day has 86400000 milliseconds")
        return moment.time()
    return time.fromisoformat(text.strip()).replace(tzinfo=None)


def _in_unit(since_epoch: pa.Array, type_: pa.DataType, output: EncodedOutput) -> pa.Array:
    try:
        return pc.cast(pc.cast(since_epoch, pa.timestamp("us", type_.tz)), type_, safe=type_.unit == "ns")
    except pa.ArrowInvalid as error:
        raise InvalidValue(0, output.texts[0], str(error)) from error


#: readers of a single value inside a nested one, by type
READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str, pa.DataType], Any]], ...] = (
    (pa.types.is_timestamp, lambda text, type_: _moment(text, type_)),
    (pa.types.is_date, lambda text, _: day(text)),
    (pa.types.is_time, lambda text, _: time_of_day(text)),
)


def _moment(text: str, type_: pa.DataType) -> datetime:
    value = _EPOCH + microseconds(text) * _MICROSECOND
    return value.replace(tzinfo=UTC) if type_.tz else value
