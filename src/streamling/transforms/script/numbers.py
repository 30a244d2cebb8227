"""Encodes and decodes integers and decimals, digit by digit. Scripts see wide integers as bigint."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from streamling.transforms.script.encoded_columns import (
    EncodedInput,
    EncodedOutput,
    InvalidValue,
    decode_each,
    join_texts,
)
from streamling.types.wide.layout import Layout, from_integers, to_texts

#: wide enough for every decimal type and for the digits that are rounded away
_CONTEXT = Context(prec=2000, rounding=ROUND_HALF_UP, Emax=10_000, Emin=-10_000)


def integers_of(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    """Return whole numbers; raises `InvalidValue` for one that the type cannot hold."""
    column = pc.cast(output.numbers, pa.int64())
    if not output.wide:
        try:
            return pc.cast(column, type_)
        except pa.ArrowInvalid:
            pass  # the code below finds out which one
    values = column.to_pylist()
    for row, value in output.wide:
        values[row] = value
    least, most = _bounds(type_)
    for row, value in enumerate(values):
        if not least <= value <= most:
            raise InvalidValue(row, str(value), f"the range of {type_} is {least} to {most}")
    return pa.array(values, type_)


def _bounds(type_: pa.DataType) -> tuple[int, int]:
    bits = type_.bit_width
    if pa.types.is_unsigned_integer(type_):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def decimals_of(output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    """Return decimals from their digits; more fractional digits than the type has are rounded half up."""
    texts = pa.array(output.texts_or_none(), pa.string())
    if _is_castable(texts, type_):
        try:
            return pc.cast(texts, type_)
        except pa.ArrowException:
            pass  # more fractional digits than the type has, or too large
    return pa.array(decode_each(output, lambda text: round_to_type(Decimal(text), type_)), type_)


def _is_castable(texts: pa.Array, type_: pa.DataType) -> bool:
    """Return whether Arrow parses ``texts`` correctly: more digits than the type's width silently become other numbers,
    and an exponent far below zero crashes the process."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    width = 38 if pa.types.is_decimal128(type_) else 76
    return longest <= width and not pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py()


def round_to_type(value: Decimal, type_: pa.DataType) -> Decimal:
    """Return ``value`` with the scale of ``type_``; raises `ValueError` if it has too many digits."""
    if value and value.adjusted() > type_.precision:
        raise ValueError(f"{type_} has {type_.precision - type_.scale} digits before the point")
    result = value.quantize(Decimal(1).scaleb(-type_.scale), context=_CONTEXT)
    if len(result.as_tuple().digits) > type_.precision:
        raise ValueError(f"{type_} has {type_.precision - type_.scale} digits before the point")
    return result


def wide_texts_of(layout: Layout, column: pa.Array) -> EncodedInput:
    if pa.types.is_decimal(column.type):  # has not passed through Spark
        return join_texts(pc.fill_null(pa.array([None if d is None else f"{d:f}" for d in column.to_pylist()]), ""))
    physical = column.storage if isinstance(column.type, pa.ExtensionType) else column
    return join_texts(pc.fill_null(to_texts(physical, layout), ""))


def wide_integers_of(layout: Layout, output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    found: list[int] = pc.cast(output.numbers, pa.int64()).to_pylist()
    for row, number in output.wide:
        found[row] = number
    for row, number in enumerate(found):
        if not layout.low <= number <= layout.high and not output.is_null(row):
            raise InvalidValue(row, str(number), f"the range of {layout.name} is {layout.low} to {layout.high}")
    values = [None if output.is_null(row) else number for row, number in enumerate(found)]
    return _wide_column(values, layout, type_)


def wide_decimals_of(layout: Layout, logical: pa.DataType, output: EncodedOutput, type_: pa.DataType) -> pa.Array:
    """Return decimals from their digits; more fractional digits than the type has are rounded half up."""
    if pa.types.is_decimal(type_):
        return decimals_of(output, type_)
    texts = decode_each(output, lambda text: format(round_to_type(Decimal(text), logical), "f"))
    return _wide_column([None if text is None else layout.parse(text) for text in texts], layout, type_)


def _wide_column(found: list[int | None], layout: Layout, type_: pa.DataType) -> pa.Array:
    physical = from_integers(found, layout)
    return pa.ExtensionArray.from_storage(type_, physical) if isinstance(type_, pa.ExtensionType) else physical
