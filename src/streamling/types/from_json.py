"""Converts JSON values to Arrow columns, the reverse of `types.json`: a value is converted exactly or rejected.

| Arrow | JSON |
|---|---|
| integers | whole number, also as text; must fit |
| decimals | number, also as text; must fit the scale |
| integers of 256 bits, decimals of more than 76 digits | the same; integers also as text with 0x |
| floats | number, also as text |
| boolean | true, false |
| strings | string; anything else as its JSON text |
| binary | string of hex digits, with or without 0x |
| date, time | ISO 8601 string |
| timestamp | ISO 8601 string, UTC if it has no zone; or a whole number in the unit of the column |
| duration | whole number of microseconds |
| list, struct, map | array, object, object |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from streamling.types.floats import fits_float
from streamling.types.json_depth import is_too_deep
from streamling.types.strict_json import InvalidJson, unique_keys
from streamling.types.wide.layout import Layout, layout_of

_Converter = Callable[[Any], Any]

#: maximum length of a value in an error
_SHOWN: Final = 100
_EPOCH: Final = datetime(1970, 1, 1)
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d{1,4})?", re.ASCII)
#: 256-bit integers have 78 digits
_MAX_DIGITS: Final = 100
_EXACT: Final = Context(prec=2 * _MAX_DIGITS, traps=[Inexact, InvalidOperation])
#: units per second
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


#: errors of Arrow for a value that a column cannot hold; text with a lone surrogate cannot be encoded
_ARROW_ERRORS: Final = (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError)


class InvalidJsonValue(ValueError):
    """A value that a column cannot hold."""

    def __init__(self, index: int, value: object, kind: pa.DataType) -> None:
        self.index = index
        text = _shown_text(value)
        self.shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
        super().__init__(f"{self.shown} is not a valid {kind}")


def parse_json(text: bytes | str) -> Any:
    """Parse a JSON text; fractions become `Decimal`, so that no digit is lost. Raises ValueError."""
    text = text if isinstance(text, str) else text.decode()
    if is_too_deep(text):
        raise ValueError("it is nested too deeply")
    try:
        return _DECODER.decode(text)
    except (json.JSONDecodeError, UnicodeDecodeError, InvalidJson):
        raise
    except ValueError:
        raise ValueError("it has a number of more than 4300 digits") from None


def arrow_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert parsed JSON ``values`` to a column of type ``kind``; raises `InvalidJsonValue`."""
    if pa.types.is_dictionary(kind):
        return arrow_column(values, kind.value_type).cast(kind)
    if layout := _own_layout(kind):
        return pa.ExtensionArray.from_storage(kind, _wide_column(values, kind, layout))
    if (column := _convert_fast(values, kind)) is not None:
        return column
    convert = _or_null(_converter(kind))
    converted = []
    for index, value in enumerate(values):
        try:
            converted.append(convert(value))
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            raise InvalidJsonValue(index, value, kind) from None
    try:
        return pa.array(converted, kind)
    except _ARROW_ERRORS:
        _raise_invalid(values, converted, kind)


def _convert_fast(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """Convert the column without inspecting each value, which is several times as fast: whole numbers, texts and
    booleans in columns of their own type, numbers in float columns. None if that fails: the slow path finds the
    reason."""
    types = set(map(type, values)) - {type(None)}
    try:
        if pa.types.is_float32(kind) or pa.types.is_float64(kind):
            return _floats(values, kind) if types <= {int, Decimal} else None
        for type_, holds in _PLAIN:
            if holds(kind):
                return pa.array(values, kind) if types <= {type_} else None
    except _ARROW_ERRORS:
        pass  # too large for the type, or a lone surrogate
    return None


def _floats(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    column = pa.array([None if value is None else float(value) for value in values], kind)
    return column if pc.all(pc.is_finite(column), min_count=0).as_py() else None


def _own_layout(kind: pa.DataType) -> Layout | None:
    """Return the layout of numbers that Arrow does not support."""
    return layout_of(kind) if isinstance(kind, pa.ExtensionType) else None


def _wide_column(values: Sequence[Any], kind: pa.DataType, layout: Layout) -> pa.Array:
    held = []
    for index, value in enumerate(values):
        try:
            held.append(None if value is None else layout.encode(layout.parse(_number_text(value))))
        except (ValueError, OverflowError):
            raise InvalidJsonValue(index, value, kind) from None
    return pa.array(held, pa.binary())


def _number_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError("not a number")
    return str(value)


def _raise_invalid(values: Sequence[Any], converted: Sequence[Any], kind: pa.DataType) -> NoReturn:
    """Raise for the value that Arrow rejects."""
    for index, value in enumerate(converted):
        try:
            pa.array([value], kind)
        except _ARROW_ERRORS:
            raise InvalidJsonValue(index, values[index], kind) from None
    raise InvalidJsonValue(0, values[0], kind)  # unreachable: values that fit one by one fit together


def _reject_constant(name: str) -> NoReturn:
    raise InvalidJson(f"JSON has no {name}")


_PLAIN: Final[tuple[tuple[type, Callable[[pa.DataType], bool]], ...]] = (
    (int, pa.types.is_integer),
    (str, pa.types.is_string),
    (bool, pa.types.is_boolean),
)

#: created once: a decoder with its own settings costs more than parsing a short text
_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_reject_constant, object_pairs_hook=unique_keys)


# ── one converter per type: a JSON value that is not null → a value for Arrow ───────────────────────────────


def _converter(kind: pa.DataType) -> _Converter:
    for holds, make in _CONVERTERS:
        if holds(kind):
            return make(kind)
    return _reject


def _or_null(convert: _Converter) -> _Converter:
    return lambda value: None if value is None else convert(value)


def _reject(value: Any) -> NoReturn:
    raise ValueError("there is no JSON representation")


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    number = _decimal(value)
    if number != number.to_integral_value(context=_EXACT):
        raise ValueError("not whole")
    return int(number)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        raise ValueError("not a number")
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError("not a number")
    number = Decimal(value)
    if number and abs(number.adjusted()) > _MAX_DIGITS:
        raise ValueError("beyond every type")  # and 1e999999999 would not even fit into memory
    return number


def _scaled(kind: pa.DataType) -> _Converter:
    unit = Decimal(1).scaleb(-kind.scale)

    def convert(value: Any) -> Decimal:
        try:
            return _decimal(value).quantize(unit, context=_EXACT)
        except DecimalException:
            raise ValueError("too many digits") from None

    return convert


def _float(kind: pa.DataType) -> _Converter:
    def convert(value: Any) -> float:
        if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
            raise ValueError("not a number")
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            raise ValueError("not a number")
        number = float(value)
        if not fits_float(number, kind):
            raise ValueError("beyond every float")
        return number

    return convert


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _shown_text(value: Any) -> str:
    try:
        return _json_text(value).encode(errors="backslashreplace").decode()
    except RecursionError:
        return "a value that is nested too deeply"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    """Return a parsed value as JSON, with all digits of its numbers."""
    match value:
        case Decimal():
            return str(value)
        case list():
            return "[" + ",".join(map(_json_text, value)) + "]"
        case dict():
            return "{" + ",".join(f"{_json_text(key)}:{_json_text(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def _binary(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("not hex digits")
    return bytes.fromhex(value[2:] if value[:2] in ("0x", "0X") else value)


def _date(kind: pa.DataType) -> _Converter:
    unit = timedelta(days=1) if pa.types.is_date32(kind) else timedelta(milliseconds=1)
    return lambda value: (date.fromisoformat(value) - _EPOCH.date()) // unit


def _time(kind: pa.DataType) -> _Converter:
    def convert(value: Any) -> int:
        moment = datetime.combine(_EPOCH.date(), time.fromisoformat(value))
        if moment.tzinfo is not None:
            raise ValueError("a time of day has no zone")
        return _in_unit(moment - _EPOCH, kind.unit)

    return convert


def _timestamp(kind: pa.DataType) -> _Converter:
    earliest, latest = (_in_unit(moment - _EPOCH, kind.unit) for moment in (datetime.min, datetime.max))

    def convert(value: Any) -> int:
        if not isinstance(value, str):
            number = _integer(value)
            if not earliest <= number <= latest:
                raise ValueError("years go from 1 to 9999")
            return number
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        return _in_unit(moment - _EPOCH, kind.unit)

    return convert


def _duration(kind: pa.DataType) -> _Converter:
    return lambda value: _in_unit(timedelta(microseconds=_integer(value)), kind.unit)


def _in_unit(span: timedelta, unit: str) -> int:
    """Return ``span`` as a whole number of ``unit``, truncated as everywhere in Arrow and Spark."""
    microseconds = span // timedelta(microseconds=1)
    return microseconds * _PER_SECOND[unit] // _PER_SECOND["us"]


def _list(kind: pa.DataType) -> _Converter:
    item = _or_null(_converter(kind.value_type))

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError("not an array")
        return [item(element) for element in value]

    return convert


def _struct(kind: pa.DataType) -> _Converter:
    fields = [(field.name, _or_null(_converter(field.type))) for field in kind]

    def convert(value: Any) -> dict[str, Any]:
        return {name: convert(_object(value).get(name)) for name, convert in fields}

    return convert


def _map(kind: pa.DataType) -> _Converter:
    key, item = _converter(kind.key_type), _or_null(_converter(kind.item_type))
    return lambda value: [(key(name), item(element)) for name, element in _object(value).items()]


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _same(convert: _Converter) -> Callable[[pa.DataType], _Converter]:
    return lambda kind: convert


_CONVERTERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], _Converter]], ...]] = (
    (pa.types.is_integer, _same(_integer)),
    (pa.types.is_decimal, _scaled),
    (pa.types.is_floating, _float),
    (pa.types.is_boolean, _same(_boolean)),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _same(_text)),
    (pa.types.is_string_view, _same(_text)),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), _same(_binary)),
    (lambda kind: pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind), _same(_binary)),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_duration, _duration),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _list),
    (pa.types.is_fixed_size_list, _list),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
)
