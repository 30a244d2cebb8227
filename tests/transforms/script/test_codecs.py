"""Every type in both directions, exactly: compared with Python's own integers, decimals and times."""

import math
import os
import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.pipeline.typenames import parse_type

SEED = int(os.environ.get("SCRIPT_SEED", "7"))
ROWS = int(os.environ.get("SCRIPT_ROWS", "300"))

_EPOCH = datetime(1970, 1, 1)


def _integers(bits: int, signed: bool):
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    edges = [least, most, 0, 1, 2**53 - 1, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1]
    fitting = [edge for edge in edges if least <= edge <= most]
    return lambda dice: dice.choice(fitting) if dice.random() < 0.2 else dice.randint(least, most)


def _decimals(precision: int, scale: int):
    def value(dice):
        digits = dice.randint(1, precision)
        return Decimal(dice.choice((-1, 1)) * dice.randint(0, 10**digits - 1)).scaleb(-scale)

    return value


def _moment(dice) -> datetime:
    microseconds = dice.choice((1, 1000, 1_000_000))
    return _EPOCH + timedelta(microseconds=dice.randint(-(10**16) // 4, 10**17) // microseconds * microseconds)


def _text(dice) -> str:
    return "".join(dice.choice('aé😀\x01\x02"\\ \n\x00u\u2029') for _ in range(dice.randint(0, 6)))


VALUES = {
    **{f"int{bits}": _integers(bits, True) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _integers(bits, False) for bits in (8, 16, 32, 64)},
    "float64": lambda dice: dice.choice((dice.uniform(-1e300, 1e300), -0.0, math.inf, -math.inf, 5e-324, 0.1)),
    "float32": lambda dice: dice.randint(-(2**24), 2**24) / 4,
    "float16": lambda dice: dice.randint(-2048, 2048) / 4,
    "string": _text,
    "utf8": _text,
    "binary": lambda dice: dice.randbytes(dice.randint(0, 5)),
    "boolean": lambda dice: dice.random() < 0.5,
    "date32": lambda dice: _moment(dice).date(),
    "date64": lambda dice: _moment(dice).date(),
    "timestamp": _moment,
    "time32": lambda dice: time(dice.randint(0, 23), dice.randint(0, 59), dice.randint(0, 59), dice.randint(0, 999) * 1000),
    "time64": lambda dice: time(dice.randint(0, 23), dice.randint(0, 59), dice.randint(0, 59), dice.randint(0, 999_999)),
    "duration": lambda dice: timedelta(microseconds=dice.randint(-(10**14), 10**14)),
    "interval": lambda dice: pa.MonthDayNano([dice.randint(-99, 99), dice.randint(-99, 99), dice.randint(-(2**60), 2**60)]),
    "null": lambda dice: None,
    "decimal": _decimals(38, 9),
    "decimal(20,4)": _decimals(20, 4),
    "decimal128(38,38)": _decimals(38, 38),
    "decimal256(76,20)": _decimals(76, 20),
}  # fmt: skip

NESTED = {
    "list of int64": (pa.list_(pa.int64()), lambda dice: [_integers(64, True)(dice), None, 1]),
    "struct": (
        pa.struct([("big", pa.uint64()), ("price", pa.decimal128(38, 9)), ("at", pa.timestamp("us", "UTC"))]),
        lambda dice: {
            "big": _integers(64, False)(dice),
            "price": _decimals(38, 9)(dice),
            "at": _moment(dice).replace(tzinfo=UTC),
        },
    ),
    "map": (pa.map_(pa.string(), pa.list_(pa.float64())), lambda dice: [("k", [math.inf, 0.5, None]), ("\x01", None)]),
    "deep": (
        pa.list_(pa.struct([("bytes", pa.binary()), ("day", pa.date32()), ("t", pa.string()), ("on", pa.bool_())])),
        lambda dice: [{"bytes": dice.randbytes(3), "day": _moment(dice).date(), "t": _text(dice), "on": True}, None],
    ),
    "zoned timestamp": (pa.timestamp("us", "UTC"), lambda dice: _moment(dice).replace(tzinfo=UTC)),
    "timestamp in ms": (pa.timestamp("ms"), lambda dice: _moment(dice).replace(microsecond=0)),
    "large string": (pa.large_string(), _text),
    "fixed binary": (pa.binary(4), lambda dice: dice.randbytes(4)),
}


def _column(kind: pa.DataType, make, dice) -> pa.Array:
    return pa.array([None if dice.random() < 0.1 else make(dice) for _ in range(ROWS)], kind)


CASES = [pytest.param(parse_type(name), make, id=name) for name, make in VALUES.items()]
CASES += [pytest.param(kind, make, id=name) for name, (kind, make) in NESTED.items()]


@pytest.mark.parametrize(("kind", "make"), CASES)
def test_a_value_that_is_passed_through_is_unchanged(scripts, kind, make):
    print(f"seed {SEED}")
    column = _column(kind, make, random.Random(SEED))
    batch = pa.record_batch([column], names=["v"])
    # a copy of the row, so that nothing can be copied from the input
    made = scripts.batch("row => ({ v: row.v })", batch)
    assert made.schema == batch.schema
    assert repr(made.column(0).to_pylist()) == repr(column.to_pylist())


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.decimal128(38, 9), pa.decimal256(76, 20)], ids=str)
def test_numbers_survive_as_text_and_as_bigint(scripts, kind):
    dice = random.Random(SEED)
    make = VALUES[str(kind)] if pa.types.is_integer(kind) else _decimals(kind.precision, kind.scale)
    column = _column(kind, make, dice)
    batch = pa.record_batch([column], names=["v"])
    script = "row => ({ v: row.v === null ? null : String(row.v) })"
    assert scripts.batch(script, batch).column(0).to_pylist() == column.to_pylist()
    if pa.types.is_integer(kind):
        script = "row => ({ v: row.v === null ? null : BigInt(row.v) * 3n / 3n })"
        assert scripts.batch(script, batch).column(0).to_pylist() == column.to_pylist()


def test_values_that_a_script_sees(scripts):
    columns = {
        "i": pa.array([5], pa.int64()),
        "big": pa.array([2**63 - 1], pa.int64()),
        "dec": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal("12345678901234567890.123456789")], pa.decimal128(38, 9)),
        "at": pa.array([datetime(2024, 5, 1, 12, 0, 0, 123456)], pa.timestamp("us")),
        "sharp": pa.array([datetime(2024, 5, 1, 12)], pa.timestamp("us", "UTC")),
        "day": pa.array([date(2024, 5, 1)]),
        "noon": pa.array([time(12)]),
        "bytes": pa.array([b"\x00\xff"]),
        "list": pa.array([[1, None]]),
        "flag": pa.array([True]),
    }
    batch = pa.record_batch(columns)
    script = """row => ({ seen: JSON.stringify(Object.entries(row).map(([k, v]) =>
        [k, typeof v, typeof v === 'bigint' ? String(v) : v])), sum: row.wide + 1, more: row.wide > row.dec })"""
    schema = pa.schema([("seen", pa.string()), ("sum", pa.float64()), ("more", pa.bool_())])
    (row,) = scripts.batch(script, batch, schema).to_pylist()
    assert row["seen"] == (
        '[["i","number",5],["big","bigint","9223372036854775807"],["dec","number",1.5],'
        '["wide","object","12345678901234567890.123456789"],["at","string","2024-05-01T12:00:00.123456"],'
        '["sharp","string","2024-05-01T12:00:00Z"],["day","string","2024-05-01"],["noon","string","12:00:00"],'
        '["bytes","string","00ff"],["list","object",[1,null]],["flag","boolean",true]]'
    )
    assert row["sum"] == 12345678901234567890.123456789
    assert row["more"] is True


COERCED = [
    ("int32", "3.7", 3), ("int32", "-3.7", -3), ("int32", "'42'", 42), ("int32", "' 42 '", 42), ("int32", "'+7.9'", 7),
    ("int32", "true", 1), ("int32", "7n", 7), ("int64", "1e18", 10**18), ("int64", "'9007199254740993'", 2**53 + 1),
    ("int64", "new Date(5)", 5), ("int64", "new Number(5)", 5), ("uint64", "2n**64n - 1n", 2**64 - 1),
    ("float64", "'1.5'", 1.5), ("float64", "3n", 3.0), ("float64", "false", 0.0), ("float64", "'Infinity'", math.inf),
    ("string", "5", "5"), ("string", "0.1", "0.1"), ("string", "12n", "12"), ("string", "true", "true"),
    ("string", "({ a: [1, 2n] })", '{"a":[1,"2"]}'), ("string", "new Date(0)", "1970-01-01T00:00:00.000Z"),
    ("boolean", "1", True), ("boolean", "'False'", False), ("boolean", "0n", False),
    ("decimal(10,2)", "0.1 + 0.2", Decimal("0.30")), ("decimal(10,2)", "'1.005'", Decimal("1.01")),
    ("decimal(10,2)", "-1.005", Decimal("-1.01")), ("decimal(10,2)", "12n", Decimal("12.00")),
    ("decimal", "1e21", Decimal(10**21)), ("decimal", "1e-7", Decimal("0.0000001")),
    ("timestamp", "'2024-05-01T12:00:00+02:00'", datetime(2024, 5, 1, 10)),
    ("timestamp", "'2024-05-01'", datetime(2024, 5, 1)), ("timestamp", "'2024-05-01 12:30'", datetime(2024, 5, 1, 12, 30)),
    ("timestamp", "1714557600123", datetime(2024, 5, 1, 10, 0, 0, 123000)),
    ("timestamp", "1.5", datetime(1970, 1, 1, 0, 0, 0, 1500)), ("timestamp", "new Date(1)", datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("timestamp", "-1n", datetime(1969, 12, 31, 23, 59, 59, 999000)),
    ("date32", "'2024-05-01T23:00:00Z'", date(2024, 5, 1)), ("date32", "new Date(86400000)", date(1970, 1, 2)),
    ("date64", "86400000", date(1970, 1, 2)),
    ("time64", "'12:30'", time(12, 30)), ("time64", "1", time(0, 0, 0, 1000)), ("time32", "new Date(1)", time(0, 0, 0, 1000)),
    ("duration", "1500000", timedelta(seconds=1.5)),
    ("binary", "'0xFFff'", b"\xff\xff"), ("binary", "new Uint8Array([1, 2])", b"\x01\x02"), ("binary", "[3]", b"\x03"),
    ("binary", "new Uint8Array([9]).buffer", b"\x09"), ("interval", "({ days: 2 })", pa.MonthDayNano([0, 2, 0])),
    ("null", "null", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "expected"), COERCED)
def test_numbers_and_texts_are_converted_to_the_declared_type(scripts, name, value, expected):
    (row,) = scripts.rows(f"() => ({{ v: {value} }})", [{"id": 1}], {"v": parse_type(name)})
    assert row["v"] == expected


REFUSED = [
    ("int32", "'abc'", "a string: abc"), ("int32", "NaN", "a number: NaN"), ("int32", "2**31", "the range of int32 is"),
    ("int8", "128", "int8 is -128 to 127"), ("uint8", "-1", "is 0 to 255"), ("int32", "({})", "an object"),
    ("int64", "2n**63n", "the range of int64 is"), ("int32", "()=>1", "a function"), ("int32", "Symbol()", "a symbol"),
    ("float64", "'x'", "a string: x"), ("boolean", "2", "a number: 2"), ("boolean", "'maybe'", "maybe"),
    ("decimal(4,2)", "100", "2 digits before the point"), ("decimal(4,2)", "'ten'", "ten"), ("decimal", "Infinity", "Infinity"),
    ("timestamp", "'yesterday'", "yesterday"), ("timestamp", "new Date(NaN)", "cannot hold"), ("date32", "'2024-13-01'", "2024-13-01"),
    ("time64", "'25:00'", "25:00"), ("time64", "86400000", "86400000"), ("binary", "'xyz'", "xyz"), ("binary", "[256]", "256"),
    ("null", "1", "a number: 1"), ("interval", "5", "object"), ("timestamp", "1e300", "1e"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED)
def test_invalid_values_are_rejected_with_column_and_row(scripts, name, value, reason):
    with pytest.raises(StreamlingError) as failure:
        scripts.rows(
            f"row => row.id === 1 ? {{ v: null }} : {{ v: {value} }}", [{"id": 1}, {"id": 2}], {"v": parse_type(name)}
        )
    message = str(failure.value)
    assert message.startswith("row 2 of the batch: column 'v' has type ")
    assert reason in message
    assert message.endswith('input: {"id":2}')
    assert not failure.value.internal
