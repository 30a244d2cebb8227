"""Converts values of files to the types of the source: typed text, and Arrow types that Spark lacks.

A value that does not fit exactly raises `pa.ArrowInvalid`; the caller adds its location.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Final

import pyarrow as pa

from streamling.connectors.file.formats import text_types as text
from streamling.types import kernels
from streamling.types.spark import to_physical
from streamling.types.wide.layout import contains_wide, is_wide

#: the range of dates that Python and most databases support
FIRST_DAY: Final = date(1, 1, 1)
LAST_DAY: Final = date(9999, 12, 31)
FIRST_INSTANT: Final = datetime(1, 1, 1)
LAST_INSTANT: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999)

_FRACTION_BEYOND_MICROSECONDS = r"(\.\d{6})\d+"
_NANOSECONDS: Final = 1000


def parse_texts(texts: pa.Array, kind: pa.DataType, *, trim: bool) -> pa.Array:
    """Parse texts as values of ``kind``. ``trim``: ignore whitespace around a value; blank is null."""
    if kind == text.STRING:
        return texts
    if trim:
        texts = kernels.trim(texts)
        texts = kernels.null_where(texts, kernels.equal(texts, ""))
    values = kernels.drop_null(texts)
    if not text.all_fit(values, kind):
        raise pa.ArrowInvalid(f"a text is not {text.NAMES[kind]}")
    if kind == text.INT:
        texts = kernels.remove_regex(texts, r"^\+")
    elif kind == text.BOOLEAN:
        texts = kernels.lower(texts)
    elif kind in (text.TIMESTAMP, text.INSTANT):
        texts = kernels.replace_regex(texts, _FRACTION_BEYOND_MICROSECONDS, r"\1")
    return checked_range(kernels.cast(texts, kind))


def checked_range(values: pa.Array) -> pa.Array:
    """Return dates and timestamps, which must be within the years 1 to 9999."""
    if (index := out_of_range(values)) is not None:
        raise pa.ArrowInvalid(f"row {index + 1} is outside the years 1 to 9999")
    return values


def out_of_range(values: pa.Array) -> int | None:
    """Return the index of the first date or timestamp outside the years 1 to 9999."""
    if pa.types.is_date32(values.type):
        first, last = pa.scalar(FIRST_DAY), pa.scalar(LAST_DAY)
    elif pa.types.is_timestamp(values.type) and values.type.unit == "us":
        first, last = (
            pa.scalar(limit, pa.timestamp("us")).cast(values.type) for limit in (FIRST_INSTANT, LAST_INSTANT)
        )
    else:
        return None
    outside = kernels.or_values(kernels.less(values, first), kernels.less(last, values))
    return kernels.index_of(outside, True)


def conform(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert values of a Parquet file to ``type_``, the type of the column over all files."""
    if pa.types.is_dictionary(values.type):
        values = kernels.cast(values, values.type.value_type)
    if isinstance(values, pa.ExtensionArray) and not is_wide(values.type):
        values = values.storage
    if pa.types.is_duration(values.type):
        values = _in_microseconds(values)
    if values.type == type_:
        return nested(values, type_, _checked_leaf) if pa.types.is_nested(type_) else _checked_leaf(values, type_)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), type_)
    if pa.types.is_nested(type_):
        return nested(values, type_, conform)
    if pa.types.is_timestamp(type_) and values.type.unit == "ns":
        # floor to microseconds: the cast alone would truncate towards zero
        values = kernels.whole_microseconds(values)
    elif type_ == pa.time64("us") and values.type == pa.time64("ns"):
        return kernels.unsafe_cast(values, type_)
    return _checked_leaf(kernels.cast(values, type_), type_)


def _in_microseconds(values: pa.Array) -> pa.Array:
    """Convert durations, truncated towards zero; seconds that overflow are an error."""
    cast = kernels.unsafe_cast if values.type.unit == "ns" else kernels.cast
    return cast(values, pa.duration("us"))


def _checked_leaf(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values.validate(full=True)
    return checked_range(values)


def nested(values: pa.Array, type_: pa.DataType, leaf: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    """Rebuild a list, map or struct with each part converted by ``leaf``; missing parts are null."""
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(type_):
        # `field` returns a child with the array's offset applied, but without the struct's own nulls
        parts = [_child(values, field, leaf) for field in type_]
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=mask)
    values = _as_list(values)
    start, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
    offsets = kernels.subtract(values.offsets, pa.scalar(start, values.offsets.type)).cast(pa.int32())
    if pa.types.is_map(type_):
        keys = _part(values.keys.slice(start, end - start), type_.key_type, leaf)
        items = _part(values.items.slice(start, end - start), type_.item_type, leaf)
        return pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=mask)
    parts = _part(values.values.slice(start, end - start), type_.value_type, leaf)
    return pa.ListArray.from_arrays(offsets, parts, type=pa.list_(type_.value_field), mask=mask)


def _as_list(values: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_list(values.type) or "view" in str(values.type).partition("<")[0]:
        return kernels.cast(values, pa.list_(values.type.value_type))
    return values


def _child(values: pa.Array, field: pa.Field, leaf: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    if values.type.get_field_index(field.name) < 0:
        return pa.nulls(len(values), field.type)
    return _part(values.field(field.name), field.type, leaf)


def _part(values: pa.Array, type_: pa.DataType, leaf: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    if pa.types.is_nested(type_) and pa.types.is_nested(values.type):
        return nested(values, type_, leaf)
    return leaf(values, type_)


def for_spark(table: pa.Table) -> pa.Table:
    """Return the table in types that Spark reads from a Parquet file."""
    plain = [pa.field(f.name, pa.string()) if pa.types.is_null(f.type) else f for f in table.schema]
    return to_physical(table.cast(pa.schema(plain)) if not any(map(contains_wide, table.schema.types)) else table)
