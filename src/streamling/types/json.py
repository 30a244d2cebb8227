"""Encodes Arrow rows as JSON text, column by column, without losing a digit.

| Arrow | JSON |
|---|---|
| integers (also of 256 bits), decimals (of any precision) | number with all its digits |
| floats | number; NaN and infinities become null, because JSON does not support them |
| strings | string |
| binary | string of hex digits |
| date, time, timestamp | ISO 8601 string; a timestamp with a zone ends in Z; years outside of 0 to 9999 have a sign |
| duration | number of microseconds |
| list, struct, map | array, object, object |
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from json.encoder import encode_basestring
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.types.spark import sql_type
from streamling.types.wide.layout import Layout, layout_of

#: returns the JSON text of a value that is not null
_Encoder = Callable[[Any], str]
_Encoders = Callable[[pa.DataType], _Encoder]

_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_SECONDS: Final = 86_400
#: days in 400 years, after which the calendar repeats, and from 0001-01-01 to 1970-01-01
_CYCLE_DAYS: Final = 146_097
_EPOCH_DAYS: Final = 719_162


def json_rows(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield one JSON object per row, keys in column order."""
    if batch.num_columns == 0:
        yield from ("{}" for _ in range(batch.num_rows))
        return
    columns = [
        [f"{name}:{text or 'null'}" for text in json_texts(column, field)]
        for field, column in zip(batch.schema, batch.columns, strict=True)
        for name in (encode_basestring(field.name),)
    ]
    for fields in zip(*columns, strict=True):
        yield "{" + ",".join(fields) + "}"


def json_texts(column: pa.Array, field: pa.Field | None = None) -> list[str | None]:
    """Return the JSON text of each value of ``column``; None for null. ``field`` holds the logical type of the
    column."""
    kind = column.type if field is None else sql_type(field)
    try:
        values, encode = _python_values(column), _encoder(kind)
    except (OverflowError, ValueError):
        if (numbers := _as_numbers(column.type)) == column.type:
            raise
        values, encode = pc.cast(column, numbers).to_pylist(), _encoder(kind, of_numbers=True)
    return [None if value is None else encode(value) for value in values]


def _python_values(column: pa.Array) -> list[Any]:
    known = _in_microseconds(column.type)
    if known != column.type:
        column = pc.cast(column, known, safe=False)
    values: list[Any] = _texts(column) if _is_text(column.type) else column.to_pylist()
    return values


def _texts(column: pa.Array) -> list[str | None]:
    """Return texts; bytes that are not UTF-8 become replacement characters."""
    try:
        texts: list[str | None] = column.to_pylist()
    except ValueError:
        held: list[bytes | None] = pc.cast(column, pa.large_binary()).to_pylist()
        texts = [None if value is None else value.decode(errors="replace") for value in held]
    return texts


def _as_numbers(kind: pa.DataType) -> pa.DataType:
    """Replace dates, times and durations with numbers, at any depth: Python only supports the years 1 to 9999."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int64()
    if _is_list(kind):
        return pa.large_list(_as_numbers(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_as_numbers(kind.key_type), _as_numbers(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_numbers(field.type)) for field in kind])
    return kind


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Replace nanoseconds, which Python does not support, with microseconds, which Spark uses anyway."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time64(kind):
        return pa.time64("us")
    if _is_list(kind):
        item = _in_microseconds(kind.value_type)
        return kind if item == kind.value_type else pa.large_list(item)
    if pa.types.is_map(kind):
        item = _in_microseconds(kind.item_type)
        return kind if item == kind.item_type else pa.map_(kind.key_type, item)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in kind])
    return kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    return any(holds(kind) for holds in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _encoder(kind: pa.DataType, *, of_numbers: bool = False) -> _Encoder:
    """Return the encoder for ``kind``; with ``of_numbers``, dates, times and durations are numbers as in
    `_as_numbers`."""
    layout = layout_of(kind)
    if layout is not None:
        return _wide_encoder(layout)
    if pa.types.is_dictionary(kind):
        return _encoder(kind.value_type, of_numbers=of_numbers)
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pa.types.is_integer(kind):
        return str
    if pa.types.is_floating(kind):
        return _float
    if _is_text(kind):
        return encode_basestring
    encoder = partial(_encoder, of_numbers=of_numbers)
    if pa.types.is_map(kind):
        return _map_encoder(kind, encoder)
    if pa.types.is_struct(kind):
        return _struct_encoder(kind, encoder)
    if _is_list(kind):
        return _list_encoder(kind, encoder)
    return _number_encoder(kind) if of_numbers and pa.types.is_temporal(kind) else _scalar


def _wide_encoder(layout: Layout) -> _Encoder:
    """Encode bytes as Spark holds them, or Arrow decimals."""
    return lambda value: layout.text(layout.decode(value)) if isinstance(value, bytes) else f"{value:f}"


def _list_encoder(kind: pa.DataType, encoder: _Encoders) -> _Encoder:
    item = _or_null(encoder(kind.value_type))
    return lambda values: "[" + ",".join(map(item, values)) + "]"


def _struct_encoder(kind: pa.DataType, encoder: _Encoders) -> _Encoder:
    fields = [(field.name, encode_basestring(field.name), _or_null(encoder(field.type))) for field in kind]
    return lambda value: "{" + ",".join(f"{key}:{encode(value[name])}" for name, key, encode in fields) + "}"


def _map_encoder(kind: pa.DataType, encoder: _Encoders) -> _Encoder:
    """Encode a map: a key that is not text becomes the text of its JSON; of equal keys the last one counts."""
    key, item = encoder(kind.key_type), _or_null(encoder(kind.item_type))

    def encode(entries: list[tuple[Any, Any]]) -> str:
        texts = {_as_key(key(k)): item(v) for k, v in entries}
        return "{" + ",".join(f"{k}:{v}" for k, v in texts.items()) + "}"

    return encode


def _as_key(text: str) -> str:
    return text if text.startswith('"') else encode_basestring(text)


def _or_null(encode: _Encoder) -> _Encoder:
    return lambda value: "null" if value is None else encode(value)


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else "null"


def _scalar(value: Any) -> str:
    match value:
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f'"{value.hex()}"'
        case datetime():
            return f'"{_timestamp(value)}"'
        case date() | time():
            return f'"{value.isoformat()}"'
        case timedelta():
            return str(value // timedelta(microseconds=1))
    return json.dumps(str(value), ensure_ascii=False)


def _number_encoder(kind: pa.DataType) -> _Encoder:
    """Return the encoder of a date, time or duration that is a number."""
    if pa.types.is_date(kind):
        per_day = 1 if pa.types.is_date32(kind) else 1000 * _DAY_SECONDS
        return lambda value: f'"{_date_text(value // per_day)}"'
    per_second = _PER_SECOND[kind.unit]
    if pa.types.is_duration(kind):
        return lambda value: str(value * _PER_SECOND["us"] // per_second)
    if pa.types.is_time(kind):
        return lambda value: f'"{_time_text(value, per_second)}"'
    zone = "Z" if kind.tz else ""

    def encode(value: int) -> str:
        days, rest = divmod(value, _DAY_SECONDS * per_second)
        return f'"{_date_text(days)}T{_time_text(rest, per_second)}{zone}"'

    return encode


def _date_text(days: int) -> str:
    """Return the date of a day since 1970, in any year."""
    cycles, rest = divmod(days + _EPOCH_DAYS, _CYCLE_DAYS)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    return f"{f'{year:04}' if 0 <= year <= 9999 else f'{year:+05}'}-{day:%m-%d}"


def _time_text(units: int, per_second: int) -> str:
    """Return the time to the microsecond, as `time.isoformat` formats it."""
    seconds, part = divmod(units, per_second)
    microseconds = part * _PER_SECOND["us"] // per_second
    fraction = f".{microseconds:06}" if microseconds else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _timestamp(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
