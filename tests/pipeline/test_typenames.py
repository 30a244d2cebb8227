from __future__ import annotations

import pyarrow as pa
import pytest

from streamling.pipeline.document.scalars import BadValueError
from streamling.pipeline.typenames import SUPPORTED, parse_type


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("int8", pa.int8()),
        ("int64", pa.int64()),
        ("uint16", pa.uint16()),
        ("UInt64", pa.uint64()),
        ("float16", pa.float16()),
        ("Float64", pa.float64()),
        ("string", pa.string()),
        ("Utf8", pa.string()),
        ("binary", pa.binary()),
        ("boolean", pa.bool_()),
        ("date32", pa.date32()),
        ("date64", pa.date64()),
        ("timestamp", pa.timestamp("us")),
        ("time32", pa.time32("ms")),
        ("time64", pa.time64("us")),
        ("duration", pa.duration("us")),
        ("interval", pa.month_day_nano_interval()),
        ("null", pa.null()),
        ("decimal", pa.decimal128(38, 9)),
        ("decimal128", pa.decimal128(38, 9)),
        ("decimal256", pa.decimal256(38, 9)),
        ("decimal(20)", pa.decimal128(20, 0)),
        ("decimal(20, 5)", pa.decimal128(20, 5)),
        ("Decimal256(76,18)", pa.decimal256(76, 18)),
        (" decimal128( 10 , 2 ) ", pa.decimal128(10, 2)),
    ],
)
def test_type_name_is_an_arrow_type(name: str, type_: pa.DataType) -> None:
    assert parse_type(name) == type_


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("tinyint", "int8"),
        ("SMALLINT", "int16"),
        ("int", "int32"),
        ("integer", "int32"),
        ("bigint", "int64"),
        ("real", "float32"),
        ("double", "float64"),
        ("Double  Precision", "float64"),
        ("text", "string"),
        ("varchar", "string"),
        ("character varying", "string"),
        ("uuid", "string"),
        ("bytea", "binary"),
        ("bool", "boolean"),
        ("date", "date32"),
        ("time", "time64"),
        ("timestamptz", "timestamp"),
        ("timestamp with time zone", "timestamp"),
        ("numeric", "decimal"),
        ("numeric(20)", "decimal(20)"),
        ("NUMERIC(20, 5)", "decimal(20, 5)"),
    ],
)
def test_sql_spellings_mean_the_documented_types(spelling: str, name: str) -> None:
    assert parse_type(spelling) == parse_type(name)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("float", "write float32 (real) or float64 (double)"),
        ("varchar(20)", "write 'varchar' without a length"),
        ("char (3)", "write 'char' without a length"),
    ],
)
def test_spellings_that_would_lose_something_are_refused(name: str, remedy: str) -> None:
    with pytest.raises(BadValueError) as raised:
        parse_type(name)
    assert remedy in str(raised.value.remedy)


def test_unknown_type_lists_the_supported_ones() -> None:
    with pytest.raises(BadValueError) as raised:
        parse_type("geometry")
    assert all(name in str(raised.value) for name in SUPPORTED)


def test_misspelt_type_is_recognised() -> None:
    with pytest.raises(BadValueError) as raised:
        parse_type("flaot64")
    assert raised.value.remedy == "did you mean 'float64'?"


@pytest.mark.parametrize("name", ["list<u256>", "Struct<a: i256>", "map<string, decimal256(76, 1)>", "array"])
def test_nested_types_have_no_names(name: str) -> None:
    with pytest.raises(BadValueError) as raised:
        parse_type(name)
    assert raised.value.remedy is not None
    assert raised.value.remedy.startswith("lists, structs and maps have no type names")


@pytest.mark.parametrize(
    "name", ["decimal(", "decimal(a,b)", "decimal()", "decimal(1,2,3)", "decimal64(5)", "decimal(-1)"]
)
def test_malformed_decimal_is_refused(name: str) -> None:
    with pytest.raises(BadValueError, match="not a decimal type"):
        parse_type(name)


@pytest.mark.parametrize("name", ["decimal(39)", "decimal128(0)", "decimal256(77,1)", "decimal(5,6)"])
def test_decimal_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(BadValueError, match="not a valid decimal"):
        parse_type(name)
