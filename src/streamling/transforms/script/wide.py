"""Encodes and decodes wide numbers (`types/wide/layout.py`): integers as bigint, decimals with all their digits."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from streamling.transforms.script import numbers
from streamling.transforms.script.encoded_columns import (
    EncodedInput,
    EncodedOutput,
    InvalidValue,
    decode_each,
    join_texts,
)
from streamling.types.wide.layout import Layout, from_integers, to_texts


def texts_of(layout: Layout, column: pa.Array) -> EncodedInput:
    if pa.types.is_decimal(column.type):  # has not passed through Spark
        return join_texts(pc.fill_null(pa.array([None if d is None else f"{d:f}" for d in column.to_pylist()]), ""))
    physical = column.storage if isinstance(column.type, pa.ExtensionType) else column
    return join_texts(pc.fill_null(to_texts(physical, layout), ""))


def integers_of(layout: Layout, output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    found: list[int] = pc.cast(output.numbers, pa.int64()).to_pylist()
    for row, number in output.wide:
        found[row] = number
    for row, number in enumerate(found):
        if not layout.low <= number <= layout.high and not output.is_null(row):
            raise InvalidValue(row, str(number), f"the range of {layout.name} is {layout.low} to {layout.high}")
    values = [None if output.is_null(row) else number for row, number in enumerate(found)]
    return _column(values, layout, type_)


def decimals_of(layout: Layout, logical: pa.DataType, output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    """Return decimals from their digits; more fractional digits than the type has are rounded half up."""
    if pa.types.is_decimal(type_):
        return numbers.decimals_of(output, type_)
    texts = decode_each(output, lambda text: format(numbers.round_to_type(Decimal(text), logical), "f"))
    return _column([None if text is None else layout.parse(text) for text in texts], layout, type_)


def _column(numbers: list[int | None], layout: Layout, type_: pa.DataType) -> pa.Array:
    physical = from_integers(numbers, layout)
    return pa.ExtensionArray.from_storage(type_, physical) if isinstance(type_, pa.ExtensionType) else physical
