"""Converts the values of each Arrow type to a sandbox and back, exactly.

| Arrow | The script gets | The script may return |
|---|---|---|
| integers up to 32 bits, floats | number | number, text, bigint, boolean |
| int64, uint64, u256, i256 | number; bigint beyond ±(2⁵³−1) | the same |
| decimal | number up to 15 digits; beyond that an object with all digits | the same; rounded half up to the scale |
| boolean | boolean | boolean, 0, 1, text |
| string | string | anything: objects as JSON |
| timestamp, date | ISO 8601 text | text, Date, milliseconds since 1970 |
| time | text such as 12:30:00.5 | text, Date, milliseconds since midnight |
| duration | microseconds | the same |
| binary | hex digits | hex digits, Uint8Array, array of bytes |
| list, struct, map, interval | array, object | the same |

Each type has a `Codec`: one function to encode, one to decode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from streamling.errors import StreamlingError
from streamling.transforms.script import nested
from streamling.transforms.script import timestamps as moments
from streamling.transforms.script.encoded_columns import (
    EncodedInput,
    EncodedOutput,
    InvalidValue,
    decode_each,
    join_texts,
)
from streamling.transforms.script.numbers import (
    decimals_of,
    integers_of,
    wide_decimals_of,
    wide_integers_of,
    wide_texts_of,
)
from streamling.types.spark import sql_type
from streamling.types.wide.layout import Layout, WideInteger, is_wide, layout_of


@dataclass(frozen=True)
class Codec:
    """Encodes and decodes the values of a type."""

    fits: Callable[[pa.DataType], bool]
    #: kind of conversion when the program reads this column
    reads: str
    #: kind of conversion when the program writes this column
    writes: str
    encode: Callable[[pa.Array], EncodedInput]
    decode: Callable[[EncodedOutput, pa.DataType], pa.Array]


def codec_for(field: pa.Field) -> Codec:
    """Return the codec of a column; raise for types that are not supported."""
    logical = sql_type(field)
    layout = layout_of(logical)
    if layout is not None:
        return _wide(layout, logical)
    if _is_nested(logical):
        return Codec(_is_nested, "json", "json", partial(_nested, logical), partial(_values, logical))
    for codec in _CODECS:
        if codec.fits(field.type):
            return codec
    raise StreamlingError.user(f"column '{field.name}' has type {field.type}, which scripts do not support")


def _wide(layout: Layout, logical: pa.DataType) -> Codec:
    if isinstance(logical, WideInteger):
        return Codec(is_wide, "int", "int", partial(wide_texts_of, layout), partial(wide_integers_of, layout))
    decode = partial(wide_decimals_of, layout, logical)
    return Codec(is_wide, "decimal", "decimal", partial(wide_texts_of, layout), decode)


# ── into the sandbox ─────────────────────────────────────────────────────────────────────────────────────────


def nulls_of(column: pa.Array) -> bytes:
    """Return a byte per row, 1 for null; empty if there are no nulls."""
    return _fixed(pc.cast(pc.is_null(column), pa.uint8()), 1) if column.null_count else b""


def _fixed(column: pa.Array, width: int) -> bytes:
    buffer = column.buffers()[1]
    return bytes(buffer.slice(column.offset * width, len(column) * width).to_pybytes())


def _number(column: pa.Array) -> EncodedInput:
    wide = pc.cast(column, pa.float64())
    return EncodedInput("number", data=_fixed(pc.fill_null(wide, 0.0), 8))


def _integer(column: pa.Array) -> EncodedInput:
    try:
        return _number(column)
    except pa.ArrowInvalid:  # some do not fit into a double
        return _text(column)


def _flag(column: pa.Array) -> EncodedInput:
    return EncodedInput("bool", data=_fixed(pc.cast(pc.fill_null(column, False), pa.uint8()), 1))


def _text(column: pa.Array) -> EncodedInput:
    return join_texts(pc.fill_null(pc.cast(column, pa.string()), ""))


def _texts(encode: Callable[[Any], str]) -> Callable[[pa.Array], EncodedInput]:
    def encode_column(column: pa.Array) -> EncodedInput:
        return join_texts(
            pa.array(["" if value is None else encode(value) for value in column.to_pylist()], pa.string())
        )

    return encode_column


def _nested(logical: pa.DataType, column: pa.Array) -> EncodedInput:
    return join_texts(pa.array(nested.texts(column, logical), pa.string()))


def _duration(column: pa.Array) -> EncodedInput:
    return _integer(pc.cast(pc.cast(column, pa.duration("us"), safe=False), pa.int64()))


# ── out of the sandbox ───────────────────────────────────────────────────────────────────────────────────────


def _integers(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    return output.with_nulls(integers_of(output, type_))


def _floats(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    numbers = output.numbers
    column = pc.cast(numbers, type_, safe=False)
    if type_ != pa.float64():
        beyond = pc.index(pc.and_(pc.is_inf(column), pc.invert(pc.is_inf(numbers))), True).as_py()
        if beyond >= 0:
            raise InvalidValue(beyond, str(numbers[beyond].as_py()), f"it exceeds the range of {type_}")
    return output.with_nulls(column)


def _flags(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    return output.with_nulls(pc.cast(output.flags, pa.bool_()))


def _strings(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    texts = pa.array(output.texts_or_none(), pa.string())
    return texts if type_ == pa.string() else pc.cast(texts, type_)


def _binaries(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    width = type_.byte_width if types.is_fixed_size_binary(type_) else None

    def read(text: str) -> bytes:
        value = bytes.fromhex(text)
        if width is not None and len(value) != width:
            raise ValueError
        return value

    return pa.array(decode_each(output, read), type_)


def _durations(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    return pc.cast(pc.cast(_integers(output, pa.int64()), pa.duration("us")), type_, safe=False)


def _nothing(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    return pa.nulls(output.rows, type_)


def _values(logical: pa.DataType, output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    read = nested.reader(logical, type_)
    try:
        values = decode_each(output, lambda text: read(json.loads(text)))
    except InvalidValue as error:
        raise InvalidValue(error.index, nested.shown(error.shown), error.reason) from error
    try:
        return nested.array(values, type_)
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidValue(_first_invalid(values, type_), "a value", str(error)) from error


def _first_invalid(values: Sequence[Any], type_: pa.DataType) -> int:
    for number, value in enumerate(values):
        try:
            nested.array([value], type_)
        except (pa.ArrowException, OverflowError):
            return number
    return 0


def _is_text(type_: pa.DataType) -> bool:
    return bool(types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_))


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        types.is_binary(type_)
        or types.is_large_binary(type_)
        or types.is_binary_view(type_)
        or types.is_fixed_size_binary(type_)
    )


def _is_nested(type_: pa.DataType) -> bool:
    return bool(types.is_nested(type_) or types.is_interval(type_))


_CODECS = (
    Codec(types.is_null, "none", "null", lambda _: EncodedInput("none"), _nothing),
    Codec(types.is_boolean, "bool", "bool", _flag, _flags),
    Codec(types.is_integer, "int", "int", _integer, _integers),
    Codec(types.is_floating, "number", "float", _number, _floats),
    Codec(_is_text, "string", "string", _text, _strings),
    Codec(types.is_decimal, "decimal", "decimal", _texts("{:f}".format), decimals_of),
    Codec(types.is_timestamp, "string", "time", moments.timestamps, moments.read_timestamps),
    Codec(types.is_date, "string", "time", moments.dates, moments.read_dates),
    Codec(types.is_time, "string", "time", moments.times, moments.read_times),
    Codec(types.is_duration, "int", "int", _duration, _durations),
    Codec(_is_binary, "string", "binary", _texts(bytes.hex), _binaries),
)
