"""Converts columns as the server sends them to the Arrow types of our columns."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.types.wide.layout import I256, U256, Layout, WideDecimal, contains_wide, from_integers, layout_of

_WIDE_BYTES: Final = 32
#: numbers of 64 bits in a wide one
_WORDS: Final = 4


class InvalidValueError(ValueError):
    """A value does not fit its column. The message says why, without the name of the column."""


def convert_column(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Convert a column of a response. Raises `InvalidValueError`."""
    return pa.chunked_array([_convert(chunk, type_) for chunk in column.chunks], type_)


def _convert(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if _has_text(type_):
        _check_text(array)
    if array.type == type_:
        return array
    if contains_wide(type_):
        return _convert_wide(array, type_)
    if pa.types.is_time(type_) or pa.types.is_duration(type_):
        array = array.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    return array.cast(type_)


def _check_text(array: pa.Array) -> None:
    """Raise if text is not valid UTF-8. The server sends text without looking at it; a column of type String may hold
    any bytes."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise InvalidValueError("it contains bytes that are not valid UTF-8") from None


def _has_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or any(_has_text(type_.field(n).type) for n in range(type_.num_fields))


# ── wide numbers ──────────────────────────────────────────────────────────────────────────────────────────────


def _convert_wide(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if type_ in (U256, I256):
        return pa.ExtensionArray.from_storage(type_, _from_little_endian(array, signed=type_ == I256))
    if isinstance(type_, WideDecimal):
        layout = layout_of(type_)
        assert layout is not None
        return pa.ExtensionArray.from_storage(type_, from_integers(_parsed(array, layout), layout))
    if pa.types.is_decimal(type_):
        return array.cast(type_)
    if pa.types.is_struct(type_):
        members = [_convert(array.field(n), type_.field(n).type) for n in range(type_.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=_mask(array))
    offsets = pc.subtract(array.offsets, array.offsets[0])
    if pa.types.is_map(type_):
        keys, items = _inside(array, array.keys), _inside(array, array.items)
        return pa.MapArray.from_arrays(
            offsets, _convert(keys, type_.key_type), _convert(items, type_.item_type), type=type_, mask=_mask(array)
        )
    values = _convert(_inside(array, array.values), type_.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=type_, mask=_mask(array))


def _inside(array: pa.Array, values: pa.Array) -> pa.Array:
    """Return the part of ``values`` that ``array``, which may be a slice, refers to."""
    start, end = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    return values.slice(start, end - start)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _from_little_endian(array: pa.Array, *, signed: bool) -> pa.Array:
    """Convert numbers of 32 bytes to the form that Spark holds: the most significant byte first, the sign bit flipped.
    Whole columns at once, with Arrow's functions: 256 bits have no type in Python that is fast."""
    reversed_bytes = pc.binary_reverse(pc.fill_null(array.cast(pa.binary()), bytes(_WIDE_BYTES)))
    count = len(array)
    words = pa.Array.from_buffers(pa.uint64(), _WORDS * count, [None, reversed_bytes.buffers()[2]])
    if signed:
        sign_bits = pa.py_buffer((b"\x80" + bytes(_WIDE_BYTES - 1)) * count)
        words = pc.bit_wise_xor(words, pa.Array.from_buffers(pa.uint64(), _WORDS * count, [None, sign_bits]))
    held = pa.Array.from_buffers(pa.binary(_WIDE_BYTES), count, [None, words.buffers()[1]]).cast(pa.binary())
    return pc.if_else(array.is_valid(), held, None) if array.null_count else held


def _parsed(array: pa.Array, layout: Layout) -> list[int | None]:
    try:
        return [None if text is None else layout.parse(text) for text in array.to_pylist()]
    except ValueError as error:
        raise InvalidValueError(str(error)) from None
