"""Lists, structs, maps and intervals: JSON in which a text that begins with U+0001 says what it stands for.

``\\x01i9007199254740993`` is an integer, ``\\x01d0.10`` a decimal, ``\\x01fNaN`` a float, ``\\x01s`` a text that begins
with that character itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from streamling.script.moments import READERS, timestamp_text
from streamling.script.numbers import rounded

_MARK = "\x01"
_SAFE = 2**53 - 1


def texts(column: pa.Array) -> list[str]:
    """JSON text of every value; empty where there is nothing."""
    convert = _writer(column.type)
    return ["" if value is None else json.dumps(convert(value)) for value in column.to_pylist()]


def _writer(type_: pa.DataType) -> Callable[[Any], Any]:
    if types.is_map(type_):
        item = _writer(type_.item_type)
        return lambda entries: {_key(key): _or_none(item, value) for key, value in entries}
    if types.is_struct(type_):
        fields = {field.name: _writer(field.type) for field in type_}
        return lambda value: {name: _or_none(write, value[name]) for name, write in fields.items()}
    if types.is_nested(type_):
        inner = _writer(type_.value_type)
        return lambda values: [_or_none(inner, value) for value in values]
    return _leaf


def _or_none(write: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else write(value)


def _key(value: Any) -> str:
    written = _leaf(value)
    return written if isinstance(value, str) else str(written).lstrip(_MARK)


def _leaf(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int():
            return value if abs(value) <= _SAFE else f"{_MARK}i{value}"
        case float():
            return value if math.isfinite(value) else f"{_MARK}f{_javascript(value)}"
        case str():
            return f"{_MARK}s{value}" if value.startswith(_MARK) else value
        case Decimal():
            return f"{_MARK}d{value:f}"
        case bytes():
            return value.hex()
        case datetime():
            return timestamp_text(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return _leaf(value // timedelta(microseconds=1))
        case pa.MonthDayNano():
            return {"months": value.months, "days": value.days, "nanoseconds": _leaf(value.nanoseconds)}
    raise ValueError(f"a {type(value).__name__} cannot cross into a script")


def _javascript(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# ── back ─────────────────────────────────────────────────────────────────────────────────────────────────────


def value(found: Any, type_: pa.DataType) -> Any:
    """What pyarrow takes for a value of ``type_``; raises `ValueError`."""
    if found is None:
        return None
    if types.is_interval(type_):
        return _interval(_expected(found, dict, "an object"))
    if types.is_map(type_):
        entries = _expected(found, dict, "an object")
        return [(value(key, type_.key_type), value(item, type_.item_type)) for key, item in entries.items()]
    if types.is_struct(type_):
        entries = _expected(found, dict, "an object")
        return {field.name: value(entries.get(field.name), field.type) for field in type_}
    if types.is_nested(type_):
        return [value(item, type_.value_type) for item in _expected(found, list, "an array")]
    return _scalar(_unmarked(found), type_)


def _expected(found: Any, kind: type, name: str) -> Any:
    if not isinstance(found, kind):
        raise ValueError(f"{name} is expected")
    return found


def _interval(entries: dict[str, Any]) -> pa.MonthDayNano:
    months, days, nanoseconds = (int(_unmarked(entries.get(name) or 0)) for name in ("months", "days", "nanoseconds"))
    return pa.MonthDayNano([months, days, nanoseconds])


def _unmarked(found: Any) -> Any:
    if not isinstance(found, str) or not found.startswith(_MARK):
        return found
    kind, rest = found[1], found[2:]
    readers: dict[str, Callable[[str], Any]] = {"i": int, "d": Decimal, "f": float, "s": str}
    return readers[kind](rest)


def _scalar(found: Any, type_: pa.DataType) -> Any:
    for fits, read in READERS:
        if fits(type_):
            return read(found if isinstance(found, str) else f"@{found}", type_)
    if types.is_boolean(type_):
        return _expected(found, bool, "a boolean")
    if types.is_integer(type_):
        return int(found)
    if types.is_floating(type_):
        return float(found)
    if types.is_decimal(type_):
        return rounded(found if isinstance(found, Decimal) else Decimal(str(found)), type_)
    if types.is_duration(type_):
        return timedelta(microseconds=int(found))
    if types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return bytes.fromhex(found)
    return found if isinstance(found, str) else json.dumps(found)
