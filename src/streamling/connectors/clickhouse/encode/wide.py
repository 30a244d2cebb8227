"""Integers of 128 and 256 bits and wide decimals: little-endian, in two's complement, as ClickHouse and Arrow hold
them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.clickhouse.encode.values import UnwritableValue
from streamling.types.wide.layout import Layout

_FLIPPED: Final = bytes(byte ^ 0x80 for byte in range(256))
#: byte of a sign extension, by the highest byte of the number
_SIGNS: Final = bytes(0xFF if byte >= 0x80 else 0 for byte in range(256))


def check_wide(column: pa.Array, layout: Layout, low: int, high: int) -> None:
    """Raise `UnwritableValue` if a number in Spark's form is not between ``low`` and ``high``."""
    if layout.low >= low and layout.high <= high:
        return
    found = pc.min_max(column)
    if not found["min"].is_valid:
        return
    for number in (layout.decode(found["min"].as_py()), layout.decode(found["max"].as_py())):
        if not low <= number <= high:
            raise UnwritableValue(
                f"the value {layout.text(number)} is not between {layout.text(low)} and {layout.text(high)}"
            )


def little_endian(column: pa.Array, layout: Layout, size: int) -> pa.Array:
    """Convert numbers in Spark's form, which fit, to ``size`` bytes each. Byte after byte of all numbers: 25 ns per
    number."""
    count, width = len(column), layout.width
    filled = column.fill_null(bytes(width)).cast(pa.binary(width))
    content = filled.buffers()[1].slice(filled.offset * width, count * width).to_pybytes()
    result = bytearray(count * size)
    for number in range(min(width, size)):
        result[number::size] = content[width - 1 - number :: width]
    if layout.bias and size >= width:
        top = content[::width].translate(_FLIPPED)
        result[width - 1 :: size] = top
        for number in range(width, size):
            result[number::size] = top.translate(_SIGNS)
    return _fixed(pa.py_buffer(result), column, size)


def decimal_bytes(column: pa.Array) -> pa.Array:
    """Return the unscaled numbers of Arrow decimals of 128 or 256 bits as bytes; nothing is copied."""
    size = column.type.byte_width
    return pa.Array.from_buffers(pa.binary(size), len(column), column.buffers(), offset=column.offset)


def lower_half(column: pa.Array) -> pa.Array:
    """Convert numbers of 32 bytes that fit into 16 bytes."""
    content = column.buffers()[1].slice(column.offset * 32, len(column) * 32).to_pybytes()
    result = bytearray(len(column) * 16)
    for number in range(16):
        result[number::16] = content[number::32]
    return _fixed(pa.py_buffer(result), column, 16)


def as_decimals(column: pa.Array, scale: int) -> pa.Array:
    """Return numbers of 32 bytes as unscaled Arrow decimals with this scale; nothing is copied."""
    return pa.Array.from_buffers(pa.decimal256(76, scale), len(column), column.buffers(), offset=column.offset)


def as_int64(column: pa.Array) -> pa.Array:
    """Return numbers of 8 bytes as integers; nothing is copied."""
    return pa.Array.from_buffers(pa.int64(), len(column), column.buffers(), offset=column.offset)


def _fixed(content: pa.Buffer, column: pa.Array, size: int) -> pa.Array:
    validity = column.is_valid().buffers()[1] if column.null_count else None
    return pa.Array.from_buffers(pa.binary(size), len(column), [validity, content])
