"""Timestamps, dates and times as text, to the microsecond and without a detour through floats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamling.script.cells import Cells, Crossing, Unfit, each, joined

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
#: milliseconds that fit into 64 bits as microseconds
_LAST = 2**63 // 1000 - 1
#: before a number of milliseconds
_NUMBER = "@"


# ── into the sandbox ─────────────────────────────────────────────────────────────────────────────────────────


def timestamp_text(value: datetime) -> str:
    """ISO 8601 with no, three or six digits of a second, as `Date` writes and reads it; Z for a moment in UTC."""
    fraction = "auto" if not value.microsecond else "microseconds" if value.microsecond % 1000 else "milliseconds"
    if value.tzinfo is None:
        return value.isoformat(timespec=fraction)
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=fraction) + "Z"


def timestamps(column: pa.Array) -> Crossing:
    """Written by Arrow; 3 µs per value less than by Python."""
    unzoned = pc.cast(column, pa.timestamp("us"), safe=False)
    texts = pc.replace_substring(pc.cast(unzoned, pa.string()), " ", "T")
    texts = pc.replace_substring_regex(pc.replace_substring_regex(texts, "000$", ""), r"\.000$|\.$", "")
    return _joined(pc.binary_join_element_wise(texts, "Z", "") if column.type.tz else texts)


def dates(column: pa.Array) -> Crossing:
    return _joined(pc.cast(pc.cast(column, pa.date32()), pa.string()))


def times(column: pa.Array) -> Crossing:
    return _joined(pa.array([None if value is None else value.isoformat() for value in _times(column)], pa.string()))


def _times(column: pa.Array) -> list[time | None]:
    values: list[time | None] = pc.cast(column, pa.time64("us"), safe=False).to_pylist()
    return values


def _joined(texts: pa.Array) -> Crossing:
    return joined(pc.fill_null(texts, ""))


# ── out of the sandbox ───────────────────────────────────────────────────────────────────────────────────────


def read_timestamps(cells: Cells, type_: pa.DataType) -> pa.Array:
    texts = pa.array(cells.present(), pa.string())
    for known in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:  # all without a zone, or all with one: 0.1 µs per value instead of 2
            return _in_unit(pc.cast(pc.cast(texts, known), pa.int64()), type_, cells)
        except pa.ArrowInvalid:
            continue
    return _in_unit(pa.array(each(cells, microseconds), pa.int64()), type_, cells)


def read_dates(cells: Cells, type_: pa.DataType) -> pa.Array:
    texts = pa.array(cells.present(), pa.string())
    try:
        return pc.cast(pc.cast(texts, pa.date32()), type_)
    except pa.ArrowInvalid:
        return pc.cast(pa.array(each(cells, day), pa.date32()), type_)


def read_times(cells: Cells, type_: pa.DataType) -> pa.Array:
    return pc.cast(pa.array(each(cells, time_of_day), pa.time64("us")), type_, safe=False)


def microseconds(text: str) -> int:
    """Since 1970, UTC. A time without a zone is taken as UTC."""
    if text.startswith(_NUMBER):
        number = Decimal(text[1:])
        if abs(number) > _LAST:
            raise ValueError("it is outside of what a timestamp can say")
        return round(number * 1000)
    value = datetime.fromisoformat(text.strip())
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _EPOCH) // _MICROSECOND


def day(text: str) -> date:
    return (_EPOCH + microseconds(text) * _MICROSECOND).date()


def time_of_day(text: str) -> time:
    """Of a time alone, of a whole timestamp, or milliseconds since midnight."""
    if text.startswith(_NUMBER) or "T" in text:
        moment = _EPOCH + microseconds(text) * _MICROSECOND
        if text.startswith(_NUMBER) and moment.date() != _EPOCH.date():
            raise ValueError("a day has 86400000 milliseconds")
        return moment.time()
    return time.fromisoformat(text.strip()).replace(tzinfo=None)


def _in_unit(since_epoch: pa.Array, type_: pa.DataType, cells: Cells) -> pa.Array:
    try:
        return pc.cast(pc.cast(since_epoch, pa.timestamp("us", type_.tz)), type_, safe=type_.unit == "ns")
    except pa.ArrowInvalid as error:
        raise Unfit(0, cells.texts[0], str(error)) from error


#: one value inside a nested one, by the class of its type
READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str, pa.DataType], Any]], ...] = (
    (pa.types.is_timestamp, lambda text, type_: _moment(text, type_)),
    (pa.types.is_date, lambda text, _: day(text)),
    (pa.types.is_time, lambda text, _: time_of_day(text)),
)


def _moment(text: str, type_: pa.DataType) -> datetime:
    value = _EPOCH + microseconds(text) * _MICROSECOND
    return value.replace(tzinfo=UTC) if type_.tz else value
