"""Converts Arrow columns to text that ``COPY … (FORMAT csv)`` reads back without loss.

`pyarrow.csv` prints at C++ speed. Text is always quoted and NULL is an unquoted empty field, so that '' stays ''.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from streamling.types.json import json_texts
from streamling.types.spark import logical_type
from streamling.types.wide.layout import layout_of, to_texts

#: Rows printed at once: the next chunk is printed while the server reads the previous one. 16 k rows of 76 bytes were
#: as fast as any other number between 4 k and 64 k.
_ROWS_PER_CHUNK: Final = 16_384
_CSV = csv.WriteOptions(include_header=False, quoting_style="needed")


def csv_chunks(table: pa.Table) -> Iterator[memoryview]:
    """Yield the rows of columns that `to_copy_text` returned as chunks of CSV text."""
    for batch in table.to_batches(max_chunksize=_ROWS_PER_CHUNK):
        output = pa.BufferOutputStream()
        csv.write_csv(batch, output, _CSV)
        yield memoryview(output.getvalue())


def to_copy_text(column: pa.Array, field: pa.Field, target: str) -> pa.Array:
    """Convert ``column`` to a type that `csv_chunks` prints exactly as the Postgres type ``target`` (``int4``) reads
    it. ``field`` holds the logical type of the column."""
    type_ = column.type
    if isinstance(type_, pa.ExtensionType):  # wide numbers that have not passed through Spark
        return to_copy_text(column.storage, field, target)
    if pa.types.is_dictionary(type_):
        return to_copy_text(column.dictionary_decode(), field, target)
    for test, convert in _CONVERSIONS:
        if test(type_):
            return convert(column, field, target)
    return column


def _time(column: pa.Array, field: pa.Field, target: str) -> pa.Array:
    return pc.cast(column, pa.time64("us"), safe=False)  # Postgres stores microseconds


def _integer(column: pa.Array, field: pa.Field, target: str) -> pa.Array:
    """Convert an integer, or a time of day in nanoseconds: Spark has no such type and delivers it as a number."""
    stands_for = logical_type(field)
    return _time(column.cast(stands_for), field, target) if pa.types.is_time(stands_for) else column


def _float(column: pa.Array, field: pa.Field, target: str) -> pa.Array:
    # 0.1 in 32 bits is not 0.1 in 64 bits: widen the number, not its text
    float_type = pa.float64() if target == "float8" else pa.float32()
    return column if column.type in (float_type, pa.float64()) else column.cast(float_type)


def _timestamp(column: pa.Array, field: pa.Field, target: str) -> pa.Array:
    wall_clock = pc.cast(column, pa.timestamp("us"), safe=False)
    return wall_clock.cast(pa.timestamp("us", "UTC")) if target == "timestamptz" else wall_clock


def _binary(column: pa.Array, field: pa.Field, target: str) -> pa.Array:
    layout = layout_of(logical_type(field))
    return _hexadecimal(column) if layout is None else to_texts(column, layout)


def _hexadecimal(column: pa.Array) -> pa.Array:
    r"""Return ``\x…`` with hex digits, converted from the whole buffer at once."""
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    starts = pa.Array.from_buffers(pa.int64(), len(column) + 1, [None, offsets], offset=column.offset)
    first, last = starts[0].as_py(), starts[-1].as_py()
    digits = pa.py_buffer((data.slice(first, last - first).to_pybytes() if data else b"").hex().encode())
    doubled = pc.multiply(pc.subtract(starts, first), 2)
    hexed = pa.Array.from_buffers(pa.large_string(), len(column), [None, doubled.buffers()[1], digits])
    text = pc.binary_join_element_wise(pa.scalar("\\x", pa.large_string()), hexed, pa.scalar("", pa.large_string()))
    return pc.if_else(column.is_valid(), text, None)


def _json(column: pa.Array, field: pa.Field, target: str) -> pa.Array:
    return pa.array(json_texts(column, field), pa.large_string())


def _other(column: pa.Array, field: pa.Field, target: str) -> pa.Array:
    try:
        return column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.large_string())


def _is_plain(type_: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_boolean, types.is_decimal, types.is_string, types.is_large_string, types.is_date32)
    return any(test(type_) for test in tests)


def _is_binary(type_: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(test(type_) for test in tests)


#: the first test that matches decides
_CONVERSIONS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.Field, str], pa.Array]], ...]] = (
    (_is_plain, lambda column, field, target: column),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date64, lambda column, field, target: column.cast(pa.date32())),
    (pa.types.is_time, _time),
    (_is_binary, _binary),
    (lambda type_: pa.types.is_nested(type_) and not pa.types.is_union(type_), _json),
    (lambda type_: True, _other),
)
