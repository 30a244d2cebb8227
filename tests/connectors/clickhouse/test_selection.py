"""Columns that have to fit those of another source: found by name, converted by the server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.clickhouse.config import ClickHouseConfig
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.clickhouse.table_query import ReadLimits, TableQuery
from streamling.connectors.clickhouse.table_reader import TableReader
from streamling.errors import StreamlingError
from streamling.network.policy import ANY_ADDRESS
from streamling.pipeline.config import AppConfig
from streamling.pipeline.options import SourceOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.plugins.sources import SourceBatch
from streamling.types.wide.layout import I256, U256, WideDecimal
from tests.connectors.clickhouse.driver import Database
from tests.connectors.clickhouse.source_driver import as_python
from tests.connectors.file.driver import StoredState
from tests.harness.services import ClickHouse

pytestmark = pytest.mark.services

_U256_MAX = 2**256 - 1
_DAY = datetime(2024, 1, 31, 12, 30, 15)

#: type in ClickHouse, values as SQL, Arrow type that is needed, values
CONVERSIONS: list[tuple[str, list[str], pa.DataType, list[Any]]] = [
    ("Int32", ["-1", "2"], pa.int64(), [-1, 2]),
    ("UInt64", ["1", "9"], pa.int32(), [1, 9]),
    ("Nullable(UInt128)", [f"'{2**128 - 1}'", "NULL"], U256, [2**128 - 1, None]),
    ("UInt256", [f"'{_U256_MAX}'", "0"], U256, [_U256_MAX, 0]),
    ("Int64", ["-5", "5"], I256, [-5, 5]),
    ("String", [f"'{_U256_MAX}'", "'7'"], U256, [_U256_MAX, 7]),
    ("Nullable(Decimal(18, 2))", ["'1.25'", "NULL"], pa.decimal128(38, 10), [Decimal("1.2500000000"), None]),
    ("UInt64", ["7", "8"], pa.decimal128(30, 3), [Decimal("7.000"), Decimal("8.000")]),
    ("Decimal(38, 0)", ["1", "2"], pa.decimal256(76, 5), [Decimal("1.00000"), Decimal("2.00000")]),
    ("Nullable(String)", [f"'-{'9' * 90}.5'", "NULL"], WideDecimal(100, 2), [int("-" + "9" * 90 + "50"), None]),
    ("UInt8", ["1", "0"], pa.bool_(), [True, False]),
    ("Float64", ["1.5", "2"], pa.float32(), [1.5, 2.0]),
    ("Int32", ["1", "2"], pa.string(), ["1", "2"]),
    ("UUID", ["'61f0c404-5cb3-11e7-907b-a6006ad3dba0'"] * 2, pa.string(), ["61f0c404-5cb3-11e7-907b-a6006ad3dba0"] * 2),
    ("String", ["unhex('ff00')", "''"], pa.binary(), [b"\xff\0", b""]),
    ("String", ["'ab'", "'cd'"], pa.binary(2), [b"ab", b"cd"]),
    ("Nullable(FixedString(2))", ["'ab'", "NULL"], pa.binary(), [b"ab", None]),
    ("Date", ["'2024-01-31'"] * 2, pa.date32(), [date(2024, 1, 31)] * 2),
    ("DateTime", ["1706704215"] * 2, pa.timestamp("ms"), [_DAY] * 2),
    ("DateTime64(6, 'Asia/Tokyo')", ["1706704215"] * 2, pa.timestamp("us", "UTC"), [_DAY.replace(tzinfo=UTC)] * 2),
    ("Int32", ["1000", "2000"], pa.time32("ms"), [time(0, 0, 1), time(0, 0, 2)]),
    ("Int64", ["1", "2"], pa.duration("us"), [timedelta(microseconds=1), timedelta(microseconds=2)]),
    ("Array(Int32)", ["[1]", "[]"], pa.list_(pa.int64()), [[1], []]),
    ("Array(UInt128)", ["['5']", "[]"], pa.list_(pa.field("element", U256, nullable=False)), [[5], []]),
    ("Map(String, Int8)", ["{'a': 1}", "{}"], pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]),
    (
        "Tuple(b Int8, a String)",
        ["(1, 'x')"] * 2,
        pa.struct([("a", pa.string()), ("b", pa.int32())]),
        [{"a": "x", "b": 1}] * 2,
    ),
]


def reader_of(database: Database, target: pa.Schema, **fields: Any) -> TableReader:
    config = AppConfig(clickhouse_source=database.settings)
    server = ClickHouseServer.of(config.part(ClickHouseConfig).clickhouse_source, "clickhouse_source", ANY_ADDRESS)
    context = NodeContext(
        name="n", options=SourceOptions(type="x"), config=config, state=StoredState(), metrics=NoopMetrics()
    )
    return TableReader(TableQuery(server, "t", target=target, **fields), ReadLimits(1000, 1000, 60), context, "key")


def read_as(database: Database, target: pa.Schema, **fields: Any) -> pa.Table:
    reader = reader_of(database, target, **fields)
    try:
        reader.load()
        assert reader.schema == target
        while True:
            batch = reader.read({})
            assert isinstance(batch, SourceBatch)
            assert isinstance(batch.rows, pa.Table)
            if batch.rows.num_rows:
                return batch.rows
    finally:
        reader.close()


@pytest.fixture(scope="module")
def converted(clickhouse: ClickHouse) -> Iterator[pa.Table]:
    """A column per row of `CONVERSIONS`."""
    with Database.created(clickhouse) as database:
        types = ", ".join(f"c{number} {name}" for number, (name, *_) in enumerate(CONVERSIONS))
        database.execute(f"CREATE TABLE t (id Int32, {types}) ENGINE = MergeTree ORDER BY id")
        for number in (0, 1):
            values = ", ".join(values[number] for _, values, _, _ in CONVERSIONS)
            database.execute(f"INSERT INTO t VALUES ({number}, {values})")
        target = pa.schema([pa.field(f"c{number}", arrow) for number, (_, _, arrow, _) in enumerate(CONVERSIONS)])
        yield read_as(database, target)


@pytest.mark.parametrize(
    "number", range(len(CONVERSIONS)), ids=[f"{name} to {arrow}" for name, _, arrow, _ in CONVERSIONS]
)
def test_a_column_is_converted_to_the_type_that_is_needed(converted: pa.Table, number: int) -> None:
    _, _, arrow, expected = CONVERSIONS[number]
    column = converted.column(f"c{number}")
    assert column.type == arrow
    assert [as_python(value, arrow) for value in column.to_pylist()] == expected


def test_columns_are_found_by_name_and_others_are_ignored(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (extra AggregateFunction(sum, Int32), b Int32, a String) ENGINE = MergeTree ORDER BY b",
        "INSERT INTO t (b, a) VALUES (1, 'x')",
    )
    target = pa.schema([("a", pa.string()), ("b", pa.int64())])
    assert read_as(database, target).to_pylist() == [{"a": "x", "b": 1}]


def test_the_operation_is_an_insert_if_the_table_has_none(database: Database) -> None:
    database.execute("CREATE TABLE t (id Int32) ENGINE = MergeTree ORDER BY id", "INSERT INTO t VALUES (1)")
    target = pa.schema([("id", pa.int32()), pa.field("_gs_op", pa.string(), nullable=False)])
    assert read_as(database, target).to_pylist() == [{"id": 1, "_gs_op": "i"}]


def test_a_missing_column_is_named(database: Database) -> None:
    database.execute("CREATE TABLE t (id Int32) ENGINE = MergeTree ORDER BY id")
    with pytest.raises(StreamlingError, match=rf"the table {database.name}\.t has no column 'amount'"):
        reader_of(database, pa.schema([("id", pa.int32()), ("amount", pa.int64())])).load()


@pytest.mark.parametrize(
    ("name", "arrow"),
    [
        ("Array(Int32)", pa.int64()),
        ("Int32", pa.list_(pa.int32())),
        ("Map(String, String)", pa.string_view()),
        ("AggregateFunction(sum, Int32)", pa.int64()),
    ],
)
def test_types_that_cannot_be_converted_are_named(database: Database, name: str, arrow: pa.DataType) -> None:
    database.execute(f"CREATE TABLE t (id Int32, v {name}) ENGINE = MergeTree ORDER BY id")
    with pytest.raises(StreamlingError) as error:
        reader_of(database, pa.schema([("id", pa.int32()), ("v", arrow)])).load()
    assert f"the column 'v' has type {name} in the table {database.name}.t" in str(error.value)
    assert f"cannot be converted to {arrow}" in str(error.value)


def test_an_integer_that_does_not_fit_is_an_error(database: Database) -> None:
    database.execute("CREATE TABLE t (id Int64) ENGINE = MergeTree ORDER BY id", "INSERT INTO t VALUES (3000000000)")
    with pytest.raises(StreamlingError, match="cannot be safely converted into type Int32"):
        read_as(database, pa.schema([("id", pa.int32())]))


def test_null_in_a_column_that_does_not_allow_it_is_an_error(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id Int64, v Nullable(Int32)) ENGINE = MergeTree ORDER BY id", "INSERT INTO t VALUES (1, NULL)"
    )
    with pytest.raises(StreamlingError, match=r"the column 'v' of the table .* contains NULL"):
        read_as(database, pa.schema([("id", pa.int64()), pa.field("v", pa.int32(), nullable=False)]))


def test_a_filter_sees_the_columns_of_the_table(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id Int64, v Int32) ENGINE = MergeTree ORDER BY id",
        "INSERT INTO t SELECT number, number FROM numbers(5)",
    )
    table = read_as(database, pa.schema([("id", pa.string())]), filter="id + v = 6")
    assert table.to_pylist() == [{"id": "3"}]
