"""Every type through the real server: new columns, existing columns, values that a column cannot hold."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from streamling.errors import BadRow, StreamlingError
from streamling.types.names import TYPE_KEY, arrow_type_name
from streamling.types.wide.layout import I256, U256, WideDecimal, from_integers, layout_of
from tests.connectors.clickhouse.driver import Database, SinkDriver

pytestmark = pytest.mark.services

_DAY = dt.date(2024, 2, 29)
_TIME = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
_MAP = pa.map_(pa.string(), pa.int64())
_INTERVAL = pa.month_day_nano_interval()
_HUGE = 2**255 + 7


@pytest.fixture
def driver(database: Database) -> SinkDriver:
    return SinkDriver(database)


def wide(type_: pa.DataType, *numbers: int | None, through_spark: bool = True) -> tuple[pa.Field, pa.Array]:
    """A column of wide numbers as a sink gets it: bytes with the logical type in the metadata."""
    layout = layout_of(type_)
    assert layout is not None
    held = from_integers(numbers, layout)
    if not through_spark:
        return pa.field("v", type_), pa.ExtensionArray.from_storage(type_, held)
    return pa.field("v", pa.binary(), metadata={TYPE_KEY: str(type_)}), held


def write(driver: SinkDriver, values: pa.Array, field: pa.Field | None = None, **options: Any) -> None:
    """Write a column ``v`` beside a key."""
    field = field or pa.field("v", values.type)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), field])
    rows = pa.record_batch([pa.array(range(len(values)), pa.int64()), values], schema=schema)
    driver.write(rows, **options)


def stored(driver: SinkDriver) -> list[Any]:
    return [value for _, value in driver.rows("id, toString(v)")]


# ── new columns ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "type_", "texts"),
    [
        (pa.array([True, None]), "Nullable(UInt8)", ["1", None]),
        (pa.array([-128, 127], pa.int8()), "Nullable(Int8)", ["-128", "127"]),
        (pa.array([-(2**15)], pa.int16()), "Nullable(Int16)", ["-32768"]),
        (pa.array([-(2**31)], pa.int32()), "Nullable(Int32)", ["-2147483648"]),
        (pa.array([-(2**63), 2**63 - 1]), "Nullable(Int64)", ["-9223372036854775808", "9223372036854775807"]),
        (pa.array([255], pa.uint8()), "Nullable(UInt8)", ["255"]),
        (pa.array([2**16 - 1], pa.uint16()), "Nullable(UInt16)", ["65535"]),
        (pa.array([2**32 - 1], pa.uint32()), "Nullable(UInt32)", ["4294967295"]),
        (pa.array([2**64 - 1], pa.uint64()), "Nullable(UInt64)", ["18446744073709551615"]),
        (pa.array([1.5], pa.float16()), "Nullable(Float32)", ["1.5"]),
        (pa.array([0.1], pa.float32()), "Nullable(Float32)", ["0.1"]),
        (pa.array([0.1, float("nan"), float("-inf")]), "Nullable(Float64)", ["0.1", "nan", "-inf"]),
        (pa.array(["ü", "", None]), "Nullable(String)", ["ü", "", None]),
        (pa.array(["a"], pa.large_string()), "Nullable(String)", ["a"]),
        (pa.array(["a"], pa.string_view()), "Nullable(String)", ["a"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "Nullable(String)", ["a", "b", "a"]),
        (pa.array([b"ab"]), "Nullable(String)", ["ab"]),
        (pa.array([b"abcd"], pa.binary(4)), "Nullable(FixedString(4))", ["abcd"]),
        (pa.array([_DAY]), "Nullable(Date)", ["2024-02-29"]),
        (pa.array([_DAY], pa.date64()), "Nullable(DateTime)", ["2024-02-29 00:00:00"]),
        (pa.array([5], pa.timestamp("s")), "Nullable(DateTime)", ["1970-01-01 00:00:05"]),
        (pa.array([1], pa.timestamp("ms")), "Nullable(DateTime64(3))", ["1970-01-01 00:00:00.001"]),
        (pa.array([_TIME]), "Nullable(DateTime64(6))", ["2024-02-29 12:30:15.123456"]),
        (pa.array([1], pa.timestamp("ns")), "Nullable(DateTime64(9))", ["1970-01-01 00:00:00.000000001"]),
        (pa.array([0], pa.timestamp("us", "Asia/Tokyo")), "Nullable(DateTime64(6))", ["1970-01-01 00:00:00.000000"]),
        (pa.array([5], pa.time32("s")), "Nullable(DateTime)", ["1970-01-01 00:00:05"]),
        (pa.array([5], pa.time32("ms")), "Nullable(DateTime64(3))", ["1970-01-01 00:00:00.005"]),
        (pa.array([5], pa.time64("us")), "Nullable(DateTime64(9))", ["1970-01-01 00:00:00.000005000"]),
        (pa.array([5], pa.time64("ns")), "Nullable(DateTime64(9))", ["1970-01-01 00:00:00.000000005"]),
        (pa.array([5], pa.duration("ms")), "Nullable(Int64)", ["5"]),
        (pa.array([(1, 2, 3)], _INTERVAL), "Nullable(String)", ["MonthDayNano(months=1, days=2, nanoseconds=3)"]),
        (pa.array([Decimal("1.5")], pa.decimal128(9, 2)), "Nullable(Decimal(9, 2))", ["1.5"]),
        (pa.array([Decimal("-1.5")], pa.decimal128(38, 10)), "Nullable(Decimal(38, 10))", ["-1.5"]),
        (pa.array([Decimal(10) ** 65], pa.decimal256(76, 10)), "Nullable(Decimal(76, 10))", ["1" + "0" * 65]),
        (pa.array([None], pa.null()), "Nullable(String)", [None]),
        (pa.array([[1, None], []]), "Array(Nullable(Int64))", ["[1,NULL]", "[]"]),
        (pa.array([[["a"]]]), "Array(Array(Nullable(String)))", ["[['a']]"]),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), "Array(Nullable(Int64))", ["[1,2]"]),
        (pa.array([{"x": 1, "y z": "a"}]), "Tuple(x Nullable(Int64), `y z` Nullable(String))", ["(1,'a')"]),
        (pa.array([[("a", 1)]], _MAP), "Map(String, Nullable(Int64))", ["{'a':1}"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_new_column_has_a_type_that_holds_every_value(driver, values, type_, texts) -> None:
    write(driver, values)
    assert driver.database.types("t")["v"] == type_
    assert stored(driver) == texts


@pytest.mark.parametrize("through_spark", [True, False])
@pytest.mark.parametrize(
    ("type_", "numbers", "new"),
    [
        (U256, [0, 2**256 - 1, None], "Nullable(UInt256)"),
        (I256, [-(2**255), -1, 0, 2**255 - 1], "Nullable(Int256)"),
        (WideDecimal(100, 0), [10**99, -5], "Nullable(String)"),
    ],
    ids=str,
)
def test_wide_numbers_keep_all_their_digits(driver, type_, numbers, new, through_spark) -> None:
    field, values = wide(type_, *numbers, through_spark=through_spark)
    write(driver, values, field)
    assert driver.database.types("t")["v"] == new
    assert stored(driver) == [None if number is None else str(number) for number in numbers]


def test_a_decimal_that_spark_holds_as_bytes_is_written_as_decimal(driver) -> None:
    held = from_integers([-(10**49), 5, None], layout_of(pa.decimal256(50, 4)))
    write(driver, held, pa.field("v", pa.binary(), metadata={TYPE_KEY: "decimal256(50, 4)"}))
    assert driver.database.types("t")["v"] == "Nullable(Decimal(50, 4))"
    assert stored(driver) == ["-" + "1" + "0" * 45, "0.0005", None]


def test_unsigned_numbers_that_spark_holds_in_other_types_keep_their_type(driver) -> None:
    values = pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0))
    write(driver, values, pa.field("v", values.type, metadata={TYPE_KEY: "uint64"}))
    assert driver.database.types("t")["v"] == "Nullable(UInt64)"
    assert stored(driver) == [str(2**64 - 1)]


@pytest.mark.parametrize(
    ("name", "held", "new", "text"),
    [
        ("uint8", pa.array([255], pa.int16()), "UInt8", "255"),
        ("time64[ns]", pa.array([5], pa.int64()), "DateTime64(9)", "1970-01-01 00:00:00.000000005"),
        ("time32[s]", pa.array([5_000_000], pa.time64("us")), "DateTime", "1970-01-01 00:00:05"),
        ("duration[ms]", pa.array([5], pa.int64()), "Int64", "5"),
        ("fixed_size_binary[2]", pa.array([b"ab"]), "FixedString(2)", "ab"),
        ("timestamp[ms]", pa.array([1000], pa.timestamp("us")), "DateTime64(3)", "1970-01-01 00:00:00.001"),
    ],
)
def test_types_that_spark_holds_in_others_are_written_as_what_they_are(driver, name, held, new, text) -> None:
    write(driver, held, pa.field("v", held.type, metadata={TYPE_KEY: name}))
    assert driver.database.types("t")["v"] == f"Nullable({new})"
    assert stored(driver) == [text]


def test_wide_numbers_inside_of_nested_values_keep_all_their_digits(driver) -> None:
    layout = layout_of(U256)
    held = pa.array([[layout.encode(_HUGE)], []], pa.list_(pa.binary()))
    write(driver, held, pa.field("v", held.type, metadata={TYPE_KEY: arrow_type_name(pa.list_(U256))}))
    assert driver.database.types("t")["v"] == "Array(Nullable(UInt256))"
    assert stored(driver) == [f"[{_HUGE}]", "[]"]


def test_a_column_without_nulls_and_a_key_are_not_nullable(driver) -> None:
    write(driver, pa.array(["a"]), pa.field("v", pa.string(), nullable=False))
    assert driver.database.types("t") == {
        "id": "Int64", "v": "String", "is_deleted": "UInt8", "insert_time": "DateTime64(9)"
    }  # fmt: skip


# ── existing columns ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("type_", "values", "texts"),
    [
        ("Bool", pa.array([True, False]), ["true", "false"]),
        ("Bool", pa.array([1, 0]), ["true", "false"]),
        ("UInt8", pa.array([255]), ["255"]),
        ("Int16", pa.array([True]), ["1"]),
        ("UInt64", pa.array([Decimal(5)], pa.decimal128(20, 0)), ["5"]),
        ("Int128", pa.array([-(2**63)]), ["-9223372036854775808"]),
        ("UInt128", pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        ("Int256", pa.array([-1, None]).drop_null(), ["-1"]),
        ("UInt256", pa.array([Decimal(10) ** 70], pa.decimal256(76, 0)), ["1" + "0" * 70]),
        ("Int128", pa.array([-(Decimal(10) ** 38)], pa.decimal256(76, 0)), ["-1" + "0" * 38]),
        ("Decimal(76, 0)", pa.array([5]), ["5"]),
        ("Decimal(10, 2)", pa.array([5, -7], pa.int8()), ["5", "-7"]),
        ("Decimal32(2)", pa.array([Decimal("1.50")], pa.decimal128(20, 4)), ["1.5"]),
        ("Float64", pa.array([2**53]), ["9007199254740992"]),
        ("Float32", pa.array([0.1]), ["0.1"]),
        ("Date", pa.array([dt.date(1970, 1, 1), dt.date(2149, 6, 6)]), ["1970-01-01", "2149-06-06"]),
        ("Date32", pa.array([dt.date(1900, 1, 1), dt.date(2299, 12, 31)]), ["1900-01-01", "2299-12-31"]),
        ("DateTime('UTC')", pa.array([_TIME]), ["2024-02-29 12:30:15"]),
        ("DateTime('UTC')", pa.array([_DAY]), ["2024-02-29 00:00:00"]),
        ("DateTime('UTC')", pa.array([2**32 - 1]), ["2106-02-07 06:28:15"]),
        ("DateTime('Asia/Tokyo')", pa.array([0], pa.timestamp("us", "UTC")), ["1970-01-01 09:00:00"]),
        ("DateTime64(3, 'UTC')", pa.array([_TIME]), ["2024-02-29 12:30:15.123"]),
        ("DateTime64(3, 'UTC')", pa.array([-1], pa.timestamp("us")), ["1969-12-31 23:59:59.999"]),
        ("DateTime64(3, 'UTC')", pa.array([1709209815123]), ["2024-02-29 12:30:15.123"]),
        ("DateTime64(1, 'UTC')", pa.array([15]), ["1970-01-01 00:00:01.5"]),
        ("DateTime64(9, 'UTC')", pa.array([_TIME]), ["2024-02-29 12:30:15.123456000"]),
        ("Time", pa.array([5_000_000], pa.time64("us")), ["00:00:05"]),
        ("Time64(6)", pa.array([5], pa.time64("us")), ["00:00:00.000005"]),
        ("String", pa.array([5]), ["5"]),
        ("String", pa.array([Decimal("1.50")]), ["1.50"]),
        ("String", pa.array([{"a": [1]}]), ['{"a":[1]}']),
        ("String", pa.array([b"\xff"]), ["\ufffd"]),
        ("LowCardinality(String)", pa.array(["a", "b"]), ["a", "b"]),
        ("LowCardinality(Nullable(String))", pa.array(["a", None]), ["a", None]),
        ("FixedString(3)", pa.array(["ab", "abc"]), ["ab", "abc"]),
        ("Enum8('a' = 1, 'b' = 2)", pa.array(["b", "a"]), ["b", "a"]),
        ("Enum16('it\\'s' = 300)", pa.array(["it's"]), ["it's"]),
        ("UUID", pa.array(["00112233-4455-6677-8899-AABBCCDDEEFF"]), ["00112233-4455-6677-8899-aabbccddeeff"]),
        ("UUID", pa.array([UUID(int=5).bytes]), [str(UUID(int=5))]),
        ("IPv4", pa.array(["1.2.3.4"]), ["1.2.3.4"]),
        ("IPv4", pa.array([1]), ["0.0.0.1"]),
        ("IPv6", pa.array(["::1"]), ["::1"]),
        ("IPv6", pa.array([bytes(15) + b"\1"], pa.binary(16)), ["::1"]),
        ("JSON", pa.array(['{"a": 1}']), ['{"a":1}']),
        ("JSON", pa.array([{"a": {"b": "x"}}]), ['{"a":{"b":"x"}}']),
        ("JSON", pa.array([[("a", 1)]], _MAP), ['{"a":1}']),
        ("Array(UInt8)", pa.array([[1], [], [2, 3]]), ["[1]", "[]", "[2,3]"]),
        ("Array(LowCardinality(String))", pa.array([["a"]]), ["['a']"]),
        ("Array(Tuple(a Int8, b String))", pa.array([[{"b": "x", "a": 1}]]), ["[(1,'x')]"]),
        ("Tuple(Int8, String)", pa.array([{"x": 1, "y": "s"}]), ["(1,'s')"]),
        ("Tuple(y String, x Int8)", pa.array([{"x": 1, "y": "s"}]), ["('s',1)"]),
        ("Map(LowCardinality(String), Float32)", pa.array([[("a", 1)]], _MAP), ["{'a':1}"]),
        ("Variant(Int64, String)", pa.array(["s"]), ["s"]),
        ("Dynamic", pa.array([1]), ["1"]),
        ("SimpleAggregateFunction(max, UInt64)", pa.array([5]), ["5"]),
        ("Point", pa.array([{"x": 1.0, "y": 2.0}]), ["(1,2)"]),
        ("Nullable(Decimal(20, 0))", pa.array([None, 5]), [None, "5"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_existing_column_gets_the_exact_values(driver, type_, values, texts) -> None:
    driver.database.execute(
        f"CREATE TABLE t (id Int64, v {type_}, is_deleted UInt8) ENGINE ReplacingMergeTree ORDER BY id"
    )
    write(driver, values)
    assert stored(driver) == texts


@pytest.mark.parametrize(
    ("type_", "layout", "number"),
    [
        ("UInt64", U256, 2**64 - 1),
        ("Int8", I256, -128),
        ("Int128", I256, -(2**127)),
        ("UInt128", U256, 2**128 - 1),
        ("Int256", U256, 2**255 - 1),
        ("UInt256", I256, 2**255 - 1),
        ("Decimal(76, 0)", I256, -(10**76) + 1),
        ("Decimal(40, 2)", U256, 10**38 - 1),
        ("String", U256, 2**256 - 1),
    ],
)
def test_a_wide_number_fits_wherever_its_value_does(driver, type_, layout, number) -> None:
    driver.database.execute(f"CREATE TABLE t (id Int64, v {type_}, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    field, values = wide(layout, number, 0)
    write(driver, values, field)
    assert [value for _, value in driver.rows("id, toString(v)", final=False)] == [str(number), "0"]


def test_a_slice_of_a_batch_is_written_as_such(driver) -> None:
    columns = {
        "id": pa.array(range(6)),
        "l": pa.array([[n, n + 1] for n in range(6)]),
        "m": pa.array([[(str(n), n)] for n in range(6)], _MAP),
        "s": pa.array([{"a": n} for n in range(6)]),
        "w": wide(U256, *range(6))[1],
    }
    fields = [pa.field(name, values.type) for name, values in columns.items()]
    fields[-1] = fields[-1].with_metadata({TYPE_KEY: "u256"})
    rows = pa.record_batch(list(columns.values()), schema=pa.schema(fields))
    driver.write(rows.slice(2, 3))
    assert driver.rows("id, toString(l), toString(m), toString(s), toString(w)") == [
        (n, f"[{n},{n + 1}]", f"{{'{n}':{n}}}", f"({n})", str(n)) for n in (2, 3, 4)
    ]


# ── values that a column cannot hold ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("type_", "values", "complaint"),
    [
        ("UInt8", pa.array([0, 256]), "the value 256 is not between 0 and 255"),
        ("UInt8", pa.array([-1, 0]), "the value -1 is not between 0 and 255"),
        ("Int128", pa.array([Decimal(10) ** 39], pa.decimal256(76, 0)), "is not between -1701411834604692317"),
        ("Bool", pa.array([2]), "the value 2 is not between 0 and 1"),
        ("Float32", pa.array([1e300]), "the value 1e+300 is too large for 32 bits"),
        ("Float64", pa.array([2**53 + 1]), "the value 9007199254740993 is not between"),
        ("Decimal(4, 2)", pa.array([Decimal("100.00")]), "the value 100.00 has more than 2 digits before or 2 after"),
        ("Decimal(4, 1)", pa.array([Decimal("1.25")]), "the value 1.25 has more than 3 digits before or 1 after"),
        ("Decimal(4, 2)", pa.array([100]), "the value 100 has more than 2 digits before"),
        ("Date", pa.array([dt.date(1969, 12, 31)]), "the value 1969-12-31 is not between 1970-01-01 and 2149-06-06"),
        ("Date", pa.array([dt.date(2149, 6, 7)]), "the value 2149-06-07 is not between"),
        ("DateTime", pa.array([dt.datetime(1969, 12, 31)]), "the value 1969-12-31 00:00:00 is not between 1970-01-01"),
        ("DateTime", pa.array([dt.datetime(2106, 2, 8)]), "and 2106-02-07 06:28:15"),
        ("DateTime64(3)", pa.array([2**62]), "the value 4611686018427387 seconds is not between"),
        ("DateTime64(9)", pa.array([dt.datetime(2263, 1, 1)]), "and 2262-04-11"),
        ("FixedString(2)", pa.array(["abc"]), "a value has 3 bytes, more than 2"),
        ("Enum8('a' = 1)", pa.array(["a", "b"]), "the value 'b' is not one of its values"),
        ("UUID", pa.array(["x" * 36]), "is not a valid UUID"),
        ("UUID", pa.array([b"x"]), "a value has 1 bytes instead of 16"),
        ("IPv4", pa.array(["1.2.3.256"]), "the value '1.2.3.256' is not a valid IPv4 address"),
        ("IPv6", pa.array(["x"]), "Invalid IPv6 value"),
        ("JSON", pa.array(["{"]), "Cannot parse JSON object"),
        ("String", pa.array(["a", None]), "has type String, and a value is NULL"),
        ("LowCardinality(String)", pa.array([None], pa.string()), "and a value is NULL"),
        ("Array(Int64)", pa.array([[1], None]), "has type Array(Int64), and a value is NULL"),
        ("Array(Int64)", pa.array([[1, None]]), "a value contains NULL where Int64 is expected"),
        ("Array(UInt8)", pa.array([[1, 300]]), "the value 300 is not between 0 and 255"),
        ("Map(String, UInt8)", pa.array([[("a", -1)]], _MAP), "the value -1 is not between"),
        ("Tuple(a Date)", pa.array([{"a": dt.date(1960, 1, 1)}]), "the value 1960-01-01 is not between"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_an_error_with_column_and_value(driver, type_, values, complaint) -> None:
    driver.database.execute(f"CREATE TABLE t (id Int64, v {type_}, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    with pytest.raises(BadRow) as caught:
        write(driver, values)
    assert complaint in str(caught.value)
    assert "column 'v'" in str(caught.value) or "column `v`" in str(caught.value)
    assert driver.rows("count()", final=False) == [(0,)]


@pytest.mark.parametrize(
    ("type_", "layout", "number"),
    [("Int256", U256, 2**255), ("UInt256", I256, -1), ("UInt8", U256, 256), ("Decimal(76, 0)", U256, 10**76)],
)
def test_a_wide_number_that_does_not_fit_is_an_error(driver, type_, layout, number) -> None:
    driver.database.execute(f"CREATE TABLE t (id Int64, v {type_}, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    field, values = wide(layout, number)
    with pytest.raises(BadRow, match=f"the value {number} is not between"):
        write(driver, values, field)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("Int64", pa.array(["1"])),
        ("Int64", pa.array([1.0])),
        ("Int64", pa.array([Decimal("1.5")])),
        ("Float64", pa.array([Decimal("1.5")])),
        ("Date", pa.array(["2024-01-01"])),
        ("Date", pa.array([_TIME])),
        ("Array(Int64)", pa.array([1])),
        ("Tuple(a Int64, b Int64)", pa.array([{"a": 1}])),
        ("Variant(Int64, String)", pa.array([1.5])),
        ("AggregateFunction(sum, UInt64)", pa.array([1])),
    ],
)
def test_a_type_that_does_not_fit_is_an_error_before_any_row_is_written(driver, type_, values) -> None:
    driver.database.execute(f"CREATE TABLE t (id Int64, v {type_}, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    with pytest.raises(StreamlingError) as caught:
        write(driver, values)
    expected = (
        f"column 'v' of table {driver.database.name}.t has type {type_}, which cannot hold values of type {values.type}"
    )
    assert caught.value.message == expected
    assert not isinstance(caught.value, BadRow)


def test_the_same_rows_have_the_same_bytes_whatever_batch_they_are_a_part_of(driver) -> None:
    """Otherwise blocks of a replay would not be recognised."""
    columns = {
        "id": pa.array(range(40)),
        "n": pa.array([None if n % 3 else n for n in range(40)], pa.int16()),
        "b": pa.array([None if n % 5 else n % 2 == 0 for n in range(40)]),
        "f": pa.array([n / 3 for n in range(40)]),
        "s": pa.array(["x" * n for n in range(40)]),
        "d": pa.array([Decimal(n) for n in range(40)], pa.decimal128(20, 2)),
        "t": pa.array(range(40), pa.int64()).cast(pa.timestamp("us")),
        "l": pa.array([list(range(n)) for n in range(40)]),
        "m": pa.array([[("a", n)] for n in range(40)], _MAP),
        "r": pa.array([{"x": n, "y": str(n)} for n in range(40)]),
    }
    whole = pa.record_batch(columns)
    with driver.opened(whole.schema) as sink:
        for start, size in [(0, 40), (0, 3), (0, 17), (5, 8), (7, 9), (39, 1)]:
            part = whole.slice(start, size)
            alone = pa.RecordBatch.from_pylist(part.to_pylist(), schema=whole.schema)
            joined = pa.concat_batches([part.slice(0, size // 2), part.slice(size // 2)])
            contents = {bytes(sink.writer.encode(rows).content) for rows in (part, alone, joined)}
            assert len(contents) == 1, (start, size)
