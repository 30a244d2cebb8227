"""Lists, structs, maps and intervals as JSON, in which a text that starts with U+0001 is a tagged value.

``\\x01i9007199254740993`` is an integer, ``\\x01d0.10`` a decimal, ``\\x01fNaN`` and ``\\x01f-0`` are floats;
``\\x01s`` precedes a text that starts with that character itself. Keys of objects are plain text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from streamling.transforms.script.numbers import round_to_type
from streamling.transforms.script.timestamps import READERS, timestamp_text
from streamling.types.floats import fits_float
from streamling.types.wide.layout import MAX_DIGITS, Layout, WideInteger, contains_wide, layout_of

_MARK = "\x01"
#: as JSON escapes it
_MARKED = re.compile(r'"\\u0001[idf]([^"]*)"')
_SAFE = 2**53 - 1
#: text that represents a number, with the same rule as `driver.js` for columns that are not nested. Python's own rule
#: also accepts 1_000 and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})


#: converts a value of Arrow to JSON, or the reverse
_Convert = Callable[[Any], Any]


def texts(column: pa.Array, logical: pa.DataType) -> list[str]:
    """Return the JSON text of every value of a column with the type ``logical``; empty for null."""
    convert = _writer(logical)
    return ["" if value is None else json.dumps(convert(value)) for value in column.to_pylist()]


def _writer(type_: pa.DataType) -> _Convert:
    layout = layout_of(type_)
    if layout is not None:
        return _wide_writer(layout, type_)
    if types.is_map(type_):
        key, item = _writer(type_.key_type), _writer(type_.item_type)
        return lambda entries: {_key(key(name)): _or_none(item, value) for name, value in entries}
    if types.is_struct(type_):
        fields = {field.name: _writer(field.type) for field in type_}
        return lambda value: {name: _or_none(write, value[name]) for name, write in fields.items()}
    if types.is_nested(type_):
        inner = _writer(type_.value_type)
        return lambda values: [_or_none(inner, value) for value in values]
    return _leaf


def _wide_writer(layout: Layout, type_: pa.DataType) -> _Convert:
    """Encode bytes as Spark holds them, or decimals that have not passed through Spark."""
    if isinstance(type_, WideInteger):
        return lambda physical: _leaf(layout.decode(physical))
    return lambda physical: (
        f"{_MARK}d{layout.text(layout.decode(physical))}" if isinstance(physical, bytes) else _leaf(physical)
    )


def _or_none(write: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else write(value)


def _key(written: Any) -> str:
    return written[2:] if isinstance(written, str) and written.startswith(_MARK) else str(written)


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
    raise ValueError(f"a {type(value).__name__} cannot be passed to a script")


def _javascript(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# ── decoding ──────────────────────────────────────────────────────────────────────────────────────────────────


def reader(logical: pa.DataType, physical: pa.DataType) -> _Convert:
    """Return a function that converts a parsed JSON value for a pyarrow column of type ``physical`` with the logical
    type ``logical``. It raises `ValueError`."""
    read = _reader(logical, physical)
    return lambda found: None if found is None else read(found)


def _reader(logical: pa.DataType, physical: pa.DataType) -> _Convert:
    layout = layout_of(logical)
    if layout is not None:
        return _wide_reader(layout, logical, physical)
    if types.is_interval(logical):
        return lambda found: _interval(_expected(found, dict, "an object"))
    if types.is_map(logical):
        key, item = _key_reader(logical.key_type, physical.key_type), reader(logical.item_type, physical.item_type)
        return lambda found: [(key(k), item(v)) for k, v in _expected(found, dict, "an object").items()]
    if types.is_struct(logical):
        members = {field.name: reader(field.type, physical.field(number).type) for number, field in enumerate(logical)}
        return lambda found: _members(_expected(found, dict, "an object"), members)
    if types.is_nested(logical):
        inner = reader(logical.value_type, physical.value_type)
        return lambda found: [inner(value) for value in _expected(found, list, "an array")]
    return lambda found: _scalar(_unmarked(found), logical)


def _key_reader(logical: pa.DataType, physical: pa.DataType) -> _Convert:
    layout = layout_of(logical)
    return (lambda text: _scalar(text, logical)) if layout is None else _wide_reader(layout, logical, physical)


def _wide_reader(layout: Layout, logical: pa.DataType, physical: pa.DataType) -> _Convert:
    if isinstance(logical, WideInteger):
        return lambda found: layout.encode(_whole(_unmarked(found)))
    if types.is_decimal(physical):
        return lambda found: _decimal(_unmarked(found), logical)
    return lambda found: layout.encode(layout.parse(f"{_decimal(_unmarked(found), logical):f}"))


def _members(found: dict[str, Any], members: dict[str, _Convert]) -> dict[str, Any]:
    return {name: read(found.get(name)) for name, read in members.items()}


def array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Build a column from what a `reader` returned; pyarrow cannot build nested extension types."""
    return pa.array(values, _stored(type_)).cast(type_) if contains_wide(type_) else pa.array(values, type_)


def _stored(type_: pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType):
        return type_.storage_type
    if types.is_map(type_):
        return pa.map_(_stored(type_.key_type), _stored(type_.item_type))
    if types.is_struct(type_):
        return pa.struct([field.with_type(_stored(field.type)) for field in type_])
    return pa.list_(_stored(type_.value_type)) if types.is_nested(type_) else type_


def shown(text: str) -> str:
    """Return JSON from a sandbox as the script's author knows it."""
    return _MARKED.sub(r"\1", text).replace(r"\u0001s", "")


def _expected(found: Any, kind: type, name: str) -> Any:
    if not isinstance(found, kind):
        raise ValueError(f"expected {name}")
    return found


def _interval(entries: dict[str, Any]) -> pa.MonthDayNano:
    months, days, nanoseconds = (int(_unmarked(entries.get(name) or 0)) for name in ("months", "days", "nanoseconds"))
    return pa.MonthDayNano([months, days, nanoseconds])


def _unmarked(found: Any) -> Any:
    if not isinstance(found, str) or not found.startswith(_MARK):
        return found
    kind, rest = found[1], found[2:]
    readers: dict[str, Callable[[str], Any]] = {"i": Decimal, "d": Decimal, "f": float, "s": str}
    return readers[kind](rest)


def _scalar(found: Any, type_: pa.DataType) -> Any:
    for fits, read in READERS:
        if fits(type_):
            return read(found if isinstance(found, str) else f"@{found}", type_)
    if types.is_boolean(type_):
        return _expected(found, bool, "a boolean")
    if types.is_integer(type_):
        return _whole(found)
    if types.is_floating(type_):
        return _float(found, type_)
    if types.is_decimal(type_):
        return _decimal(found, type_)
    if types.is_duration(type_):
        return timedelta(microseconds=_whole(found))
    if types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return _bytes(found)
    if isinstance(found, float) and found == 0:
        return "0"  # JavaScript prints −0 as 0
    return str(found) if isinstance(found, str | Decimal) else json.dumps(found)


def _bytes(found: Any) -> bytes:
    """Decode hex digits, or an array of bytes."""
    if isinstance(found, str):
        return bytes.fromhex(found[2:] if found[:2] in ("0x", "0X") else found)
    return bytes(_expected(found, list, "hex digits or an array of bytes"))


def _digits(text: str, kind: str = "number") -> str:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"'{text}' is not a {kind}")
    return text


def _float(found: Any, type_: pa.DataType) -> float:
    if isinstance(found, str) and found not in _NOT_FINITE:
        found = Decimal(_digits(found))
    number = float(found)
    if isinstance(found, int | Decimal) and not math.isfinite(number):
        raise ValueError(f"it exceeds the range of {type_}")
    if math.isfinite(number) and not fits_float(number, type_):
        raise ValueError(f"it exceeds the range of {type_}")
    return number


def _whole(found: Any) -> int:
    """Return a whole number; fractions are truncated. A bigint is tagged: a large value without a tag is a number,
    whose last digits JavaScript prints as zeros."""
    if isinstance(found, int | float):
        return found if isinstance(found, int) and abs(found) <= _SAFE else int(float(found))
    if isinstance(found, str | Decimal):
        exact = Decimal(_digits(found, "whole number") if isinstance(found, str) else found)
        if exact.is_finite() and exact.adjusted() <= MAX_DIGITS:  # the digits of 1e999999999 would fill the memory
            return int(exact)
    raise ValueError("expected a whole number")


def _decimal(found: Any, type_: pa.DataType) -> Decimal:
    if not isinstance(found, int | float | str | Decimal) or isinstance(found, bool):
        raise ValueError("expected a number")
    return round_to_type(found if isinstance(found, Decimal) else Decimal(_digits(str(found))), type_)
