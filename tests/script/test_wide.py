"""Wide numbers in scripts: bigint in and out, decimals with all their digits."""

import random

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.types.names import arrow_type_name
from streamling.types.spark import LOGICAL
from streamling.types.wide import I256, U256, WideDecimal, from_integers, layout_of, to_integers
from tests.types.wide_numbers import edges, some


def _batch(type_: pa.DataType, numbers: list[int | None]) -> pa.RecordBatch:
    field = pa.field("x", pa.binary(), metadata={LOGICAL: arrow_type_name(type_)})
    return pa.RecordBatch.from_arrays([from_integers(numbers, layout_of(type_))], schema=pa.schema([field]))


def _numbers(column: pa.Array, type_: pa.DataType) -> list[int | None]:
    return to_integers(column.storage if isinstance(column.type, pa.ExtensionType) else column, layout_of(type_))


@pytest.mark.parametrize("type_", [U256, I256, WideDecimal(100, 20), pa.decimal256(76, 10)], ids=str)
def test_numbers_come_back_as_they_went_in(scripts, type_):
    numbers = [*edges(type_), *some(type_, 100, random.Random(3)), None]
    found = scripts.batch("function process(row) { return row }", _batch(type_, numbers))
    assert _numbers(found.column("x"), type_) == numbers


def test_a_script_computes_with_bigint(scripts):
    batch = _batch(U256, [2**255, 5, None])
    script = "function process(row) { return {x: row.x === null ? null : BigInt(row.x) + 1n} }"
    found = scripts.batch(script, batch, pa.schema([pa.field("x", U256)]))
    assert found.column("x").type == U256
    assert _numbers(found.column("x"), U256) == [2**255 + 1, 6, None]


def test_a_number_without_a_place_is_told(scripts):
    batch = _batch(U256, [1])
    with pytest.raises(StreamlingError, match="u256 goes from 0"):
        scripts.batch("function process(row) { return {x: -1n} }", batch, pa.schema([pa.field("x", U256)]))


def test_decimals_are_rounded_to_their_scale(scripts):
    decimal = WideDecimal(90, 2)
    script = "function process(row) { return {x: '123456789012345678901234567890123456789012345.125'} }"
    found = scripts.batch(script, _batch(decimal, [1]), pa.schema([pa.field("x", decimal)]))
    assert _numbers(found.column("x"), decimal) == [12345678901234567890123456789012345678901234513]
