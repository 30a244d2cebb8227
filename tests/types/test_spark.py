"""Arrow types in Spark: every entry of the map, and extreme values in a round trip."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.types.names import arrow_type, arrow_type_name
from streamling.types.spark import (
    logical_type,
    physical_type,
    to_arrow_schema,
    to_arrow_type,
    to_physical,
    to_spark_schema,
    to_spark_type,
)
from streamling.types.wide.layout import contains_wide
from tests.types.physical import from_physical

UTC = dt.UTC
LAST_MOMENT = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)

# Arrow type, Spark's name, values for a round trip
TYPES: list[tuple[pa.DataType, str, list[Any]]] = [
    (pa.bool_(), "boolean", [True, False]),
    (pa.int8(), "tinyint", [-(2**7), 2**7 - 1]),
    (pa.int16(), "smallint", [-(2**15), 2**15 - 1]),
    (pa.int32(), "int", [-(2**31), 2**31 - 1]),
    (pa.int64(), "bigint", [-(2**63), 2**63 - 1]),
    (pa.uint8(), "smallint", [0, 2**8 - 1]),
    (pa.uint16(), "int", [0, 2**16 - 1]),
    (pa.uint32(), "bigint", [0, 2**32 - 1]),
    (pa.uint64(), "decimal(20,0)", [0, 2**64 - 1]),
    (pa.float16(), "float", [0.0, -65504.0]),
    (pa.float32(), "float", [0.0, 2.0**127]),
    (pa.float64(), "double", [5e-324, 1.7976931348623157e308]),
    (pa.string(), "string", ["", "ż\u0000\U0001f600"]),
    (pa.large_string(), "string", ["", "x" * 10_000]),
    (pa.string_view(), "string", ["", "longer than twelve bytes"]),
    (pa.binary(), "binary", [b"", b"\x00\xff"]),
    (pa.large_binary(), "binary", [b"", b"\x00\xff"]),
    (pa.binary_view(), "binary", [b"", b"\x00\xff"]),
    (pa.binary(3), "binary", [b"abc", b"\x00\x00\xff"]),
    (pa.date32(), "date", [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.date64(), "date", [dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    (pa.time32("s"), "time(6)", [dt.time(0), dt.time(23, 59, 59)]),
    (pa.time32("ms"), "time(6)", [dt.time(0), dt.time(23, 59, 59, 999000)]),
    (pa.time64("us"), "time(6)", [dt.time(0), dt.time(23, 59, 59, 999999)]),
    (pa.time64("ns"), "bigint", [dt.time(0), dt.time(23, 59, 59, 999999)]),
    (pa.timestamp("s"), "timestamp_ntz", [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)]),
    (pa.timestamp("ms"), "timestamp_ntz", [dt.datetime(1970, 1, 1)]),
    (pa.timestamp("us"), "timestamp_ntz", [dt.datetime(1, 1, 1), LAST_MOMENT]),
    (pa.timestamp("ns"), "timestamp_ntz", [dt.datetime(1700, 1, 1), dt.datetime(2262, 1, 1, 0, 0, 0, 1)]),
    (pa.timestamp("us", "UTC"), "timestamp", [dt.datetime(1, 1, 2, tzinfo=UTC), LAST_MOMENT.replace(tzinfo=UTC)]),
    (pa.timestamp("ms", "Europe/Oslo"), "timestamp", [dt.datetime(2020, 7, 1, tzinfo=UTC)]),
    (pa.duration("s"), "bigint", [dt.timedelta(0), dt.timedelta(days=-1)]),
    (pa.duration("ms"), "bigint", [dt.timedelta(milliseconds=1)]),
    (pa.duration("us"), "bigint", [dt.timedelta(microseconds=-1)]),
    (pa.duration("ns"), "bigint", [dt.timedelta(microseconds=5)]),
    (pa.decimal128(38, 0), "decimal(38,0)", [Decimal(10**38 - 1), Decimal(-(10**38) + 1)]),
    (pa.decimal128(38, 18), "decimal(38,18)", [Decimal("1e-18")]),
    (pa.decimal256(20, 2), "decimal(20,2)", [Decimal("1.25")]),
    (pa.decimal256(76, 10), "binary", [Decimal(f"{10**76 - 1}e-10"), Decimal("-1e-10")]),
    (pa.list_(pa.int64()), "array<bigint>", [[], [1, None]]),
    (pa.large_list(pa.string()), "array<string>", [["a"]]),
    (pa.list_(pa.int32(), 2), "array<int>", [[1, 2]]),
    (pa.map_(pa.string(), pa.int64()), "map<string,bigint>", [[("a", 1)]]),
    (pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.string()))]), "struct<a:smallint,b:array<string>>",
     [{"a": 255, "b": ["x"]}]),
    (pa.dictionary(pa.int32(), pa.string()), "string", ["x"]),
    (pa.null(), "void", []),
]  # fmt: skip

IDS = [str(row[0]) for row in TYPES]


@pytest.mark.parametrize(("type_", "name", "values"), TYPES, ids=IDS)
def test_each_type_has_its_type_in_spark(type_: pa.DataType, name: str, values: list[Any]) -> None:
    assert to_spark_type(type_).simpleString() == name


@pytest.mark.parametrize(("type_", "name", "values"), TYPES, ids=IDS)
def test_a_physical_type_is_its_own_physical_type(type_: pa.DataType, name: str, values: list[Any]) -> None:
    held = physical_type(type_)
    assert physical_type(held) == held
    back = to_arrow_type(to_spark_type(held))
    assert str(back).replace("element:", "item:") == str(held).replace("element:", "item:")


@pytest.mark.parametrize(("type_", "name", "values"), TYPES, ids=IDS)
def test_flat_types_are_remembered_in_the_metadata(type_: pa.DataType, name: str, values: list[Any]) -> None:
    schema = to_arrow_schema(to_spark_schema(pa.schema([pa.field("x", type_)])))
    remembered = logical_type(schema.field("x"))
    layout_only = pa.types.is_nested(type_) or pa.types.is_dictionary(type_) or pa.types.is_decimal(type_)
    layout_only = layout_only and not contains_wide(type_)
    assert remembered == (physical_type(type_) if layout_only else type_)


@pytest.mark.parametrize("type_", [type_ for type_, _, _ in TYPES if type_ != physical_type(type_)], ids=str)
def test_names_are_parsed_back_to_their_type(type_: pa.DataType) -> None:
    if not (pa.types.is_nested(type_) or pa.types.is_dictionary(type_) or pa.types.is_decimal(type_)):
        assert arrow_type(arrow_type_name(type_)) == type_


@pytest.mark.parametrize("type_", [pa.month_day_nano_interval(), pa.decimal128(5, -2)], ids=str)
def test_unsupported_types_are_named(type_: pa.DataType) -> None:
    with pytest.raises(StreamlingError) as refused:
        physical_type(type_)
    assert not refused.value.internal
    assert str(type_) in str(refused.value)


def test_a_column_that_cannot_leave_spark_is_named_with_what_to_do() -> None:
    from pyspark.sql.types import StructField, StructType, VariantType

    with pytest.raises(StreamlingError, match="column 'v' has type variant") as refused:
        to_arrow_schema(StructType([StructField("v", VariantType())]))
    assert "cast it" in (refused.value.remedy or "")


def test_metadata_of_others_is_kept() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), metadata={"logical": "u256"})])
    assert to_arrow_schema(to_spark_schema(schema)).field("x").metadata == {b"logical": b"u256"}


def test_a_table_of_physical_types_is_unchanged() -> None:
    table = pa.table({"x": [1, 2]})
    assert to_physical(table) is table


@pytest.mark.spark
def test_extreme_values_survive_a_round_trip(spark: Any) -> None:
    """All types in one table, through a real session, a projection with a rename, and back."""
    length = max(len(values) for _, _, values in TYPES)
    table = pa.table(
        {f"c{n}": pa.array([*values, *[None] * (length - len(values))], t) for n, (t, _, values) in enumerate(TYPES)}
    )
    schema = to_spark_schema(table.schema)
    frame = spark.createDataFrame(to_physical(table), schema)
    assert [field.dataType for field in frame.schema.fields] == [field.dataType for field in schema.fields]
    moved = frame.selectExpr(*[f"c{n} AS d{n}" for n in range(len(TYPES))])
    back = from_physical(moved.toArrow(), to_arrow_schema(moved.schema))
    for number, (type_, _, _) in enumerate(TYPES):
        assert back[f"d{number}"].to_pylist() == table[f"c{number}"].to_pylist(), type_


@pytest.mark.spark
def test_types_that_only_spark_has_are_mapped(spark: Any) -> None:
    texts = ["CAST('a' AS CHAR(3))", "CAST('a' AS VARCHAR(3))", "TIMESTAMP '2020-01-02' - TIMESTAMP '2020-01-01'"]
    frame = spark.range(1).selectExpr(*[f"{text} AS c{n}" for n, text in enumerate(texts)])
    assert to_arrow_schema(frame.schema).types == frame.toArrow().schema.types
