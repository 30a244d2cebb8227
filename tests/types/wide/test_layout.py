"""Wide numbers in their held form: compared with Python's integers and `decimal`, without Spark."""

from __future__ import annotations

import gc
import pickle
import random
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest

from streamling.types.names import arrow_type, arrow_type_name
from streamling.types.wide.layout import (
    I256,
    U256,
    WideDecimal,
    contains_wide,
    decimal_type,
    from_decimals,
    from_integers,
    is_wide,
    to_integers,
    to_texts,
)
from tests.types.physical import to_decimals
from tests.types.wide.wide_numbers import TYPES, edges, held, some

SEED = 20260


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_the_order_of_the_bytes_is_the_order_of_the_numbers(type_: pa.DataType) -> None:
    layout = held(type_)
    numbers = sorted({*edges(type_), *some(type_, 300, random.Random(SEED))})
    encoded = [layout.encode(number) for number in numbers]
    assert encoded == sorted(encoded)
    assert {len(held) for held in encoded} == {layout.width}
    assert [layout.decode(held) for held in encoded] == numbers


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_one_past_the_limit_overflows(type_: pa.DataType) -> None:
    layout = held(type_)
    for number in (layout.low - 1, layout.high + 1):
        with pytest.raises(OverflowError, match=f"does not fit into {layout.name.replace('(', '.').replace(')', '.')}"):
            layout.encode(number)
        with pytest.raises(OverflowError):
            from_integers([0, number], layout)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_texts_are_those_of_decimal_and_parse_back(type_: pa.DataType) -> None:
    layout = held(type_)
    numbers = [*edges(type_), *some(type_, 200, random.Random(SEED))]
    texts = to_texts(from_integers([*numbers, None], layout), layout).to_pylist()
    with localcontext(prec=2000):
        assert texts == [*(f"{Decimal(number).scaleb(-layout.scale):f}" for number in numbers), None]
    assert [layout.parse(text) for text in texts[:-1]] == numbers
    assert to_integers(from_integers([*numbers, None], layout), layout) == [*numbers, None]


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), (" +7\n", 7), ("-0", 0), ("0xFf", 255), ("-0x10", -16), ("1e3", 1000), ("10e-1", 1), ("12.000", 12)],
)
def test_spellings_of_whole_numbers(text: str, number: int) -> None:
    assert held(I256).parse(text) == number


@pytest.mark.parametrize("text", ["", " ", "+", "1.5", "1e-1", "0x", "0x1e+5", "1_000", "1,5", "NaN", "٣", "1" * 2001])
def test_invalid_whole_numbers_are_reported(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        held(I256).parse(text)


def test_a_decimal_accepts_no_more_fractional_digits_than_its_scale() -> None:
    layout = held(pa.decimal256(40, 2))
    assert layout.parse(".5") == 50
    assert layout.parse("1.250e1") == 1250
    with pytest.raises(ValueError, match="at most 2 digits after the point"):
        layout.parse("0.123")


@pytest.mark.parametrize("type_", [type_ for type_ in TYPES if pa.types.is_decimal(type_)], ids=str)
def test_arrow_decimals_there_and_back(type_: pa.DataType) -> None:
    layout = held(type_)
    encoded = from_integers([*edges(type_), None], layout)
    decimals = to_decimals(encoded, layout, type_)
    assert decimals.type == type_
    assert from_decimals(decimals, layout) == encoded


def test_types_are_equal_when_they_hold_the_same() -> None:
    assert WideDecimal(80, 1) == WideDecimal(80, 1) != WideDecimal(80, 2)
    assert U256 != I256
    assert pa.list_(U256) != pa.list_(I256)
    assert pa.list_(WideDecimal(80, 1)) != pa.list_(WideDecimal(80, 2))
    assert {pa.struct([("x", WideDecimal(80, 1))]): 1}[pa.struct([("x", WideDecimal(80, 1))])] == 1


def test_types_survive_pickles_and_the_garbage_collector() -> None:
    types = [*TYPES, pa.list_(U256), pa.struct([("d", WideDecimal(90, 4))])]
    schemas = [pickle.loads(pickle.dumps(pa.schema([("x", type_)]))) for type_ in types]
    gc.collect()
    for type_, schema in zip(types, schemas, strict=True):
        assert schema.field("x").type == type_
        assert contains_wide(schema.field("x").type)


NESTED = [
    (pa.list_(U256), pa.list_(pa.binary())),
    (pa.map_(pa.string(), I256), pa.map_(pa.string(), pa.binary())),
    (
        pa.struct([("a", U256), ("b", pa.string()), ("item", pa.list_(WideDecimal(100, 2)))]),
        pa.struct([("a", pa.binary()), ("b", pa.string()), ("item", pa.list_(pa.binary()))]),
    ),
]


@pytest.mark.parametrize(("type_", "physical_type"), [*((type_, pa.binary()) for type_ in TYPES), *NESTED], ids=str)
def test_names_are_parsed_back_to_the_type(type_: pa.DataType, physical_type: pa.DataType) -> None:
    assert arrow_type(arrow_type_name(type_), physical_type) == type_


def test_decimals_have_the_narrowest_type_that_holds_them() -> None:
    assert decimal_type(38, 2) == pa.decimal128(38, 2)
    assert decimal_type(39, 2) == pa.decimal256(39, 2)
    assert decimal_type(77, 2) == WideDecimal(77, 2)
    assert not is_wide(pa.decimal256(38, 2))
    assert not contains_wide(pa.list_(pa.decimal128(38, 2)))
