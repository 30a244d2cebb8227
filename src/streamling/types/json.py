"""Arrow rows as JSON text, column by column, without losing a digit.

| Arrow | JSON |
|---|---|
| integers, decimals | number with all its digits |
| floats | number; NaN and infinities are null, JSON has no word for them |
| strings | string |
| binary | string of hex digits |
| date, time, timestamp | ISO 8601 string; a timestamp with a zone ends in Z |
| duration | number of microseconds |
| list, struct, map | array, object, object |
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: JSON text of one value that is not null
_Encoder = Callable[[Any], str]


def json_rows(batch: pa.RecordBatch) -> Iterator[str]:
    """One JSON object per row, keys in column order."""
    if batch.num_columns == 0:
        yield from ("{}" for _ in range(batch.num_rows))
        return
    columns = [
        [f"{encode_basestring(name)}:{text}" for text in _column(column)]
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    for fields in zip(*columns, strict=True):
        yield "{" + ",".join(fields) + "}"


def _column(column: pa.Array) -> list[str]:
    encode = _encoder(column.type)
    return ["null" if value is None else encode(value) for value in _python_values(column)]


def _python_values(column: pa.Array) -> list[Any]:
    # nanosecond timestamps have no Python value: microseconds are what Spark knows anyway
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = pc.cast(column, pa.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return values


def _encoder(kind: pa.DataType) -> _Encoder:
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pa.types.is_integer(kind):
        return str
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return encode_basestring
    return _nested


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else "null"


def _nested(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return encode_basestring(value)
        case int():
            return str(value)
        case float():
            return _float(value)
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
        case dict():
            return "{" + ",".join(f"{encode_basestring(str(k))}:{_nested(v)}" for k, v in value.items()) + "}"
        case list() if value and all(isinstance(item, tuple) for item in value):  # how Arrow shows a map
            return _nested(dict(value))
        case list():
            return "[" + ",".join(map(_nested, value)) + "]"
    return json.dumps(str(value), ensure_ascii=False)


def _timestamp(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
