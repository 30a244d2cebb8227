"""JSON to Arrow columns: a value is converted exactly or rejected."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from streamling.types.from_json import InvalidJsonValue, arrow_column, parse_json
from streamling.types.json import json_texts
from streamling.types.wide.layout import U256, layout_of, to_integers

DECIMAL = pa.decimal128(38, 9)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("null", pa.int64(), None),
        ("9223372036854775807", pa.int64(), 2**63 - 1),
        ('"-9223372036854775808"', pa.int64(), -(2**63)),
        ("18446744073709551615", pa.uint64(), 2**64 - 1),
        ("1.0", pa.int32(), 1),
        ("12e2", pa.int32(), 1200),
        ("12345678901234567890.123456789", DECIMAL, Decimal("12345678901234567890.123456789")),
        ('"0.1"', DECIMAL, Decimal("0.100000000")),
        ("1.1000000000000", DECIMAL, Decimal("1.100000000")),
        ("7", DECIMAL, Decimal("7.000000000")),
        ("9" * 76, pa.decimal256(76, 0), Decimal("9" * 76)),
        ("0.1", pa.float64(), 0.1),
        ("1", pa.float64(), 1.0),
        ('"2.5"', pa.float32(), 2.5),
        ("1.5", pa.float16(), 1.5),
        ("65519", pa.float16(), 65504.0),
        ("3.4e38", pa.float32(), 3.3999999521443642e38),
        ("true", pa.bool_(), True),
        ('"text"', pa.string(), "text"),
        ("1.10", pa.string(), "1.10"),
        ('{"a": [1, 2.50, null, "ü"]}', pa.string(), '{"a":[1,2.50,null,"ü"]}'),
        ('"00ff"', pa.binary(), b"\x00\xff"),
        ('"0x00FF"', pa.binary(), b"\x00\xff"),
        ('"00ff"', pa.binary(2), b"\x00\xff"),
        ('"2024-05-01"', pa.date32(), date(2024, 5, 1)),
        ('"1969-12-31"', pa.date64(), date(1969, 12, 31)),
        ('"12:30:00.5"', pa.time64("us"), time(12, 30, 0, 500_000)),
        ('"12:30:00.5"', pa.time32("ms"), time(12, 30, 0, 500_000)),
        ('"2024-05-01T12:00:00.123456"', pa.timestamp("us"), datetime(2024, 5, 1, 12, 0, 0, 123456)),
        ('"2024-05-01T12:00:00+02:00"', pa.timestamp("us"), datetime(2024, 5, 1, 10)),
        ('"2024-05-01T12:00:00Z"', pa.timestamp("ms", "UTC"), datetime(2024, 5, 1, 12, tzinfo=UTC)),
        ("1714564800000000", pa.timestamp("us"), datetime(2024, 5, 1, 12)),
        ('"0001-01-01T00:00:00.000001"', pa.timestamp("us"), datetime(1, 1, 1, 0, 0, 0, 1)),
        ("1500000", pa.duration("us"), timedelta(seconds=1.5)),
        ("[1, null]", pa.list_(pa.int64()), [1, None]),
        ('{"b": 2, "c": 3}', pa.struct([("a", pa.int64()), ("b", pa.int8())]), {"a": None, "b": 2}),
        ('{"1": 0.5}', pa.map_(pa.int32(), pa.decimal128(5, 2)), [(1, Decimal("0.50"))]),
        ('"x"', pa.dictionary(pa.int32(), pa.string()), "x"),
    ],
)
def test_values_that_fit(text, kind, value):
    column = arrow_column([parse_json(text)], kind)
    assert column.type == kind
    assert column.to_pylist() == [value]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("9223372036854775808", pa.int64()),
        ("-1", pa.uint8()),
        ("256", pa.uint8()),
        ("1.5", pa.int64()),
        ("true", pa.int64()),
        ('"one"', pa.int64()),
        ('""', pa.int64()),
        ('"١"', pa.int64()),
        ("1e999999999", pa.int64()),
        ('"1e999"', DECIMAL),
        ("0.0000000001", DECIMAL),
        ("1e30", DECIMAL),
        ("1e999", pa.float64()),
        ("1e39", pa.float32()),
        ('"-1e39"', pa.float32()),
        ("65520", pa.float16()),
        ("[1, 1e39]", pa.list_(pa.float32())),
        ('{"a": 1e39}', pa.struct([("a", pa.float32())])),
        ('"NaN"', pa.float64()),
        ("1", pa.bool_()),
        ('"true"', pa.bool_()),
        ('"xyz"', pa.binary()),
        ("1", pa.binary()),
        ("{}", pa.binary()),
        ('"00ff"', pa.binary(3)),
        ('"2024-02-30"', pa.date32()),
        ("19844", pa.date32()),
        ('"noon"', pa.time64("us")),
        ('"yesterday"', pa.timestamp("us")),
        ("1.5", pa.timestamp("us")),
        ("[1]", pa.int64()),
        ("1", pa.list_(pa.int64())),
        ('["a"]', pa.list_(pa.int64())),
        ("[]", pa.struct([("a", pa.int64())])),
        ("1", pa.null()),
    ],
)
def test_values_that_do_not_fit_are_rejected_with_their_index(text, kind):
    with pytest.raises(InvalidJsonValue) as raised:
        arrow_column([None, parse_json(text)], kind)
    assert raised.value.index == 1
    assert str(kind) in str(raised.value)


def test_a_long_value_is_truncated_in_the_message():
    with pytest.raises(InvalidJsonValue) as raised:
        arrow_column(["x" * 10_000], pa.int64())
    assert len(raised.value.shown) < 200


@pytest.mark.parametrize(
    "text",
    ["NaN", "[Infinity]", "{", "", "[" * 100_000, "9" * 10_000, '{"a": 1, "a": 1}', '[{"b": {"a": 1, "\\u0061": 2}}]'],
)
def test_invalid_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)


KINDS = [
    (pa.int64(), lambda chance: chance.randint(-(2**63), 2**63 - 1)),
    (pa.uint64(), lambda chance: chance.randint(0, 2**64 - 1)),
    (pa.decimal128(38, 18), lambda chance: Decimal(chance.randint(-(10**37), 10**37)).scaleb(-18)),
    (pa.float64(), lambda chance: chance.uniform(-1, 1) * 10 ** chance.randint(-300, 300)),
    (
        pa.timestamp("us"),
        lambda chance: datetime(1970, 1, 1) + timedelta(microseconds=chance.randint(-(10**16), 10**17)),
    ),
    (pa.date32(), lambda chance: date.fromordinal(chance.randint(1, 3_000_000))),
    (pa.binary(), lambda chance: chance.randbytes(chance.randint(0, 9))),
    (pa.string(), lambda chance: "".join(chr(chance.choice([9, 34, 92, 0, 300, 0x1F389])) for _ in range(9))),
]


@pytest.mark.parametrize(
    ("kind", "make"), KINDS, ids=lambda given: str(given) if isinstance(given, pa.DataType) else ""
)
def test_json_texts_survive_a_round_trip(kind, make):
    chance = random.Random(11)
    print("seed 11")
    values = pa.array([make(chance) for _ in range(500)] + [None], kind)
    read = [None if text is None else parse_json(text) for text in json_texts(values)]
    assert arrow_column(read, kind).equals(values)


def test_numbers_of_256_bits_keep_every_digit():
    column = arrow_column(parse_json(f'[{2**256 - 1}, "0xff", "7", null]'), U256)
    assert column.type == U256
    assert to_integers(column.storage, layout_of(U256)) == [2**256 - 1, 255, 7, None]


@pytest.mark.parametrize("value", [-1, 2**256, Decimal("1.5"), True, "x", [1]])
def test_invalid_256_bit_numbers_are_rejected_with_their_index(value):
    with pytest.raises(InvalidJsonValue, match="is not a valid u256") as refused:
        arrow_column([1, value], U256)
    assert refused.value.index == 1
