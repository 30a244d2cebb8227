"""Spark's results as the logical types of a pipeline."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pyarrow as pa

from streamling.types.spark import logical_type
from streamling.types.wide.layout import MAX_DIGITS, Layout, layout_of, to_integers


def from_physical(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert the rows of ``toArrow`` to the logical types in ``schema`` (of `to_arrow_schema`)."""
    logical = pa.schema([pa.field(f.name, logical_type(f), f.nullable) for f in schema])
    columns = [_from_physical(column, field.type) for column, field in zip(table.columns, logical, strict=True)]
    return pa.Table.from_arrays(columns, schema=logical)


def to_decimals(column: pa.Array, layout: Layout, type_: pa.DataType) -> pa.Array:
    """Decode encoded values to Arrow decimals (``type_``)."""
    with localcontext(prec=MAX_DIGITS):
        numbers = to_integers(column, layout)
        return pa.array([None if n is None else Decimal(n).scaleb(-layout.scale) for n in numbers], type_)


def _from_physical(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    layout = layout_of(type_)
    if layout is not None and pa.types.is_decimal(type_):
        return pa.chunked_array([to_decimals(chunk, layout, type_) for chunk in column.chunks], type_)
    if pa.types.is_time(column.type) and pa.types.is_time(type_) and column.type != type_:
        return column.cast(type_, safe=False)
    return column if column.type == type_ else column.cast(type_)
