"""Every ClickHouse type that can be read: its Arrow type, and values as they arrive."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.clickhouse.read_types import UnsupportedTypeError, arrow_field, read_type
from streamling.connectors.clickhouse.type_text import parse_type
from streamling.types.spark import to_physical
from streamling.types.wide.layout import I256, U256
from tests.connectors.clickhouse.driver import Database
from tests.connectors.clickhouse.source_driver import SourceDriver, as_python
from tests.harness.services import ClickHouse

_DAY = datetime(2024, 1, 31, 12, 30, 15, tzinfo=UTC)


def _instant(digits: int) -> datetime:
    return _DAY.replace(microsecond=int("123456"[: min(digits, 6)].ljust(6, "0")))


def _strict(type_: pa.DataType) -> pa.DataType:
    """A list without NULL."""
    return pa.list_(pa.field("item", type_, nullable=False))


#: ClickHouse type, a value as SQL, Arrow type, the value in Python
TYPES: list[tuple[str, str, pa.DataType, Any]] = [
    ("Bool", "true", pa.bool_(), True),
    ("Int8", "-128", pa.int8(), -128),
    ("Int16", "-32768", pa.int16(), -32768),
    ("Int32", "-2147483648", pa.int32(), -(2**31)),
    ("Int64", "-9223372036854775808", pa.int64(), -(2**63)),
    ("Int128", f"'{-(2**127)}'", I256, -(2**127)),
    ("Int256", f"'{-(2**255)}'", I256, -(2**255)),
    ("UInt8", "255", pa.uint8(), 255),
    ("UInt16", "65535", pa.uint16(), 65535),
    ("UInt32", "4294967295", pa.uint32(), 2**32 - 1),
    ("UInt64", "18446744073709551615", pa.uint64(), 2**64 - 1),
    ("UInt128", f"'{2**128 - 1}'", U256, 2**128 - 1),
    ("UInt256", f"'{2**256 - 1}'", U256, 2**256 - 1),
    ("BFloat16", "1.5", pa.float32(), 1.5),
    ("Float32", "-0.0", pa.float32(), -0.0),
    ("Float64", "5e-324", pa.float64(), 5e-324),
    ("Decimal(9, 2)", "'-1234567.89'", pa.decimal128(9, 2), Decimal("-1234567.89")),
    ("Decimal(18, 0)", "'1'", pa.decimal128(18, 0), Decimal(1)),
    ("Decimal(38, 38)", f"'0.{'9' * 38}'", pa.decimal128(38, 38), Decimal(f"0.{'9' * 38}")),
    ("Decimal(39, 3)", f"'-{'9' * 36}.999'", pa.decimal256(39, 3), Decimal(f"-{'9' * 36}.999")),
    ("Decimal(76, 20)", f"'{'9' * 56}.{'9' * 20}'", pa.decimal256(76, 20), Decimal(f"{'9' * 56}.{'9' * 20}")),
    ("String", "'ü\\'\\0'", pa.string(), "ü'\0"),
    ("FixedString(4)", "'ab'", pa.binary(4), b"ab\0\0"),
    ("Date", "'2149-06-06'", pa.date32(), date(2149, 6, 6)),
    ("Date32", "'1900-01-01'", pa.date32(), date(1900, 1, 1)),
    ("DateTime", "1706704215", pa.timestamp("s", "UTC"), _DAY),
    ("DateTime('Asia/Tokyo')", "1706704215", pa.timestamp("s", "UTC"), _DAY),
    *(
        (
            f"DateTime64({digits}{zone})",
            f"toDateTime64('2024-01-31 12:30:15.123456', {digits}, 'UTC')",
            pa.timestamp(unit, "UTC"),
            _instant(digits),
        )
        for digits, unit in enumerate(["s", "ms", "ms", "ms", "us", "us", "us", "ns", "ns", "ns"])
        for zone in (("", ", 'America/New_York'") if digits in (3, 9) else ("",))
    ),
    ("Enum8('it\\'s' = -1, 'b' = 2)", "'it\\'s'", pa.string(), "it's"),
    ("Enum16('a' = 300)", "'a'", pa.string(), "a"),
    ("UUID", "'61f0c404-5cb3-11e7-907b-a6006ad3dba0'", pa.string(), "61f0c404-5cb3-11e7-907b-a6006ad3dba0"),
    ("IPv4", "'10.0.0.1'", pa.string(), "10.0.0.1"),
    ("IPv6", "'2001:db8::1'", pa.string(), "2001:db8::1"),
    ("LowCardinality(String)", "'x'", pa.string(), "x"),
    ("LowCardinality(FixedString(2))", "'x'", pa.binary(2), b"x\0"),
    ("SimpleAggregateFunction(max, DateTime)", "1706704215", pa.timestamp("s", "UTC"), _DAY),
    ("JSON", '\'{"a": {"b": [1, null]}}\'', pa.string(), '{"a":{"b":[1,null]}}'),
    ("Array(Int32)", "[1, 2]", _strict(pa.int32()), [1, 2]),
    ("Array(Nullable(String))", "['a', NULL]", pa.list_(pa.string()), ["a", None]),
    ("Array(Array(DateTime))", "[[1706704215], []]", _strict(_strict(pa.timestamp("s", "UTC"))), [[_DAY], []]),
    ("Array(UInt128)", "['1', '2']", _strict(U256), [1, 2]),
    ("Array(Nullable(Int256))", "['-1', NULL]", pa.list_(I256), [-1, None]),
    ("Array(Decimal(40, 1))", "['1.5']", _strict(pa.decimal256(40, 1)), [Decimal("1.5")]),
    (
        "Map(LowCardinality(String), Nullable(UUID))",
        "{'a': '61f0c404-5cb3-11e7-907b-a6006ad3dba0', 'b': NULL}",
        pa.map_(pa.string(), pa.string()),
        [("a", "61f0c404-5cb3-11e7-907b-a6006ad3dba0"), ("b", None)],
    ),
    (
        "Map(String, UInt256)",
        "map('a', toUInt256(7))",
        pa.map_(pa.string(), pa.field("value", U256, nullable=False)),
        [("a", 7)],
    ),
    (
        "Tuple(a Int8, `b c` Nullable(Date))",
        "(1, NULL)",
        pa.struct([pa.field("a", pa.int8(), nullable=False), ("b c", pa.date32())]),
        {"a": 1, "b c": None},
    ),
    (
        "Tuple(Int8, UInt256)",
        "(1, '5')",
        pa.struct([pa.field("1", pa.int8(), nullable=False), pa.field("2", U256, nullable=False)]),
        {"1": 1, "2": 5},
    ),
    (
        "Point",
        "(1.5, 2)",
        pa.struct([pa.field("1", pa.float64(), nullable=False), pa.field("2", pa.float64(), nullable=False)]),
        {"1": 1.5, "2": 2.0},
    ),
    ("IntervalDay", "INTERVAL 3 DAY", pa.int64(), 3),
]
NULLABLE = [row for row in TYPES if not row[0].startswith(("Array", "Map", "Tuple", "Low", "Simple", "JSON", "Point"))]


@dataclass(frozen=True)
class Read:
    """The columns of a table as they arrived."""

    declared: pa.Schema
    table: pa.Table

    def column(self, name: str) -> tuple[pa.Field, list[Any]]:
        field, column = self.table.schema.field(name), self.table.column(name)
        if pa.types.is_timestamp(field.type):
            return field, column.cast(pa.timestamp("us", "UTC"), safe=False).to_pylist()
        return field, [as_python(value, field.type) for value in column.to_pylist()]


def read_columns(database: Database, *columns: tuple[str, list[str]]) -> Read:
    """Write columns of a type and their values, ``c0`` and so on, to a new table and read them."""
    types = ", ".join(f"c{number} {type_}" for number, (type_, _) in enumerate(columns))
    rows = list(zip(*(values for _, values in columns), strict=True))
    database.execute(
        f"CREATE OR REPLACE TABLE t (id Int32, {types}) ENGINE = MergeTree ORDER BY id",
        *(f"INSERT INTO t VALUES ({number}, {', '.join(row)})" for number, row in enumerate(rows)),
    )
    with SourceDriver(database).running() as run:
        table = run.step()
        assert table is not None
        return Read(run.source.schema(), table)


@pytest.fixture(scope="module")
def plain(clickhouse: ClickHouse) -> Iterator[Read]:
    """A column per row of `TYPES`."""
    with Database.created(clickhouse) as database:
        yield read_columns(database, *((name, [value]) for name, value, _, _ in TYPES))


@pytest.fixture(scope="module")
def nullable(clickhouse: ClickHouse) -> Iterator[Read]:
    """A column per row of `NULLABLE`: a value, NULL, and the value again."""
    with Database.created(clickhouse) as database:
        columns = ((f"Nullable({name})", [value, "NULL", value]) for name, value, _, _ in NULLABLE)
        yield read_columns(database, *columns)


@pytest.mark.services
@pytest.mark.parametrize("number", range(len(TYPES)), ids=[row[0] for row in TYPES])
def test_values_of_every_type_are_exact(plain: Read, number: int) -> None:
    _, _, arrow, expected = TYPES[number]
    field, found = plain.column(f"c{number}")
    assert field == pa.field(f"c{number}", arrow, nullable=False)
    assert found == [expected]
    if expected == 0:
        assert math.copysign(1, found[0]) == math.copysign(1, expected)


@pytest.mark.services
@pytest.mark.parametrize("number", range(len(NULLABLE)), ids=[row[0] for row in NULLABLE])
def test_null_of_every_type_stays_null(nullable: Read, number: int) -> None:
    _, _, arrow, expected = NULLABLE[number]
    field, found = nullable.column(f"c{number}")
    assert field == pa.field(f"c{number}", arrow)
    assert found == [expected, None, expected]


@pytest.mark.services
def test_rows_have_the_declared_types_and_spark_can_hold_them(plain: Read, nullable: Read) -> None:
    for read in (plain, nullable):
        assert read.table.schema == read.declared
        assert to_physical(read.table).num_rows == read.table.num_rows


@pytest.mark.services
def test_values_of_several_types_are_text(database: Database) -> None:
    read = read_columns(database, ("Variant(Int32, Array(String))", ["1", "['a']", "NULL"]))
    assert read.column("c0") == (pa.field("c0", pa.string()), ["1", "['a']", None])


@pytest.mark.services
def test_a_nested_column_is_several_columns(database: Database) -> None:
    read = read_columns(database, ("Nested(a Int32, b Bool)", ["[1, 2], [true, false]"]))
    assert read.column("c0.a")[1] == [[1, 2]]
    assert read.column("c0.b")[1] == [[True, False]]


@pytest.mark.parametrize(
    "name",
    ["AggregateFunction(sum, Int32)", "Array(AggregateFunction(uniq, String))", "Tuple()", "SomethingNew(3)"],
)
def test_other_types_are_not_supported(name: str) -> None:
    with pytest.raises(UnsupportedTypeError):
        read_type(parse_type(name))


@pytest.mark.parametrize(
    ("name", "nullable"),
    [
        ("Nullable(Int8)", True),
        ("LowCardinality(Nullable(String))", True),
        ("SimpleAggregateFunction(any, Nullable(String))", True),
        ("Dynamic", True),
        ("Array(Nullable(Int8))", False),
        ("JSON", False),
    ],
)
def test_a_column_is_nullable_if_its_type_is(name: str, nullable: bool) -> None:
    assert arrow_field("c", parse_type(name)).nullable is nullable
