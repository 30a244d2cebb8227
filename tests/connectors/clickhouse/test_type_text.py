"""Names of ClickHouse types as trees."""

from __future__ import annotations

import pytest

from streamling.connectors.clickhouse.type_text import (
    ClickHouseType,
    EnumValue,
    InvalidTypeError,
    Named,
    TypeSetting,
    parse_type,
    split_type,
)

_STRING = ClickHouseType("String")


@pytest.mark.parametrize(
    "text",
    [
        "UInt8",
        "Nullable(DateTime64(3, 'UTC'))",
        "LowCardinality(Nullable(String))",
        "Enum8('a' = 1, 'it\\'s' = -2, '' = 0)",
        "Decimal(76, 10)",
        "Decimal256(10)",
        "Array(Array(Nullable(Int256)))",
        "Map(LowCardinality(String), Array(UInt64))",
        "Tuple(UInt8, String)",
        "Tuple(a UInt8, `b c` Tuple(`d.e` String))",
        "Nested(id UInt8, name String)",
        "FixedString(20)",
        "JSON",
        "JSON(max_dynamic_paths=8, a.b UInt32, SKIP c.d, SKIP REGEXP 'e.*')",
        "AggregateFunction(quantiles(0.5, 0.9), UInt64)",
        "AggregateFunction(1, sum, UInt64)",
        "SimpleAggregateFunction(sum, Float64)",
        "Variant(UInt8, String)",
        "Dynamic(max_types=5)",
        "Object(Nullable('json'))",
        "Interval",
        "QBit(Float32, 16)",
    ],
)
def test_a_name_as_the_server_prints_it_is_printed_the_same(text: str) -> None:
    assert str(parse_type(text)) == text


def test_arguments_are_types_strings_and_numbers() -> None:
    parsed = parse_type("Array( Nullable(DateTime64(3,'Europe/Berlin')) )")
    assert parsed == ClickHouseType(
        "Array", (ClickHouseType("Nullable", (ClickHouseType("DateTime64", (3, "Europe/Berlin")),)),)
    )
    assert parsed.inner.is_nullable
    assert parsed.inner.bare.name == "DateTime64"


def test_an_enum_has_its_values() -> None:
    assert parse_type("Enum8('a' = 1, 'b\\\\c''d' = 2, 'e')").arguments == (
        EnumValue("a", 1),
        EnumValue("b\\c'd", 2),
        EnumValue("e", None),
    )


def test_a_tuple_has_names_where_its_elements_have_them() -> None:
    parsed = parse_type('Tuple(a UInt8, "b ""c" String, `d\\`e` Nullable(String))')
    assert parsed.arguments == (
        Named("a", ClickHouseType("UInt8")),
        Named('b "c', _STRING),
        Named("d`e", ClickHouseType("Nullable", (_STRING,))),
    )
    assert [str(inner) for inner in parsed.types] == ["UInt8", "String", "Nullable(String)"]


def test_json_has_typed_paths_and_settings() -> None:
    assert parse_type("JSON(max_dynamic_types = 4, a.b Array(UInt8), SKIP `x y`)").arguments == (
        TypeSetting("max_dynamic_types = 4"),
        Named("a.b", ClickHouseType("Array", (ClickHouseType("UInt8"),))),
        TypeSetting("SKIP `x y`"),
    )


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("Nullable(UInt8)", True),
        ("LowCardinality(Nullable(String))", True),
        ("LowCardinality(String)", False),
        ("Dynamic", True),
        ("Variant(UInt8, String)", True),
        ("Array(Nullable(UInt8))", False),
    ],
)
def test_a_type_knows_whether_it_takes_null(text: str, nullable: bool) -> None:
    assert parse_type(text).is_nullable is nullable


def test_what_follows_a_type_is_split_off() -> None:
    parsed, rest = split_type("DateTime64(3) CODEC(Delta, ZSTD(1))")
    assert (str(parsed), rest) == ("DateTime64(3)", "CODEC(Delta, ZSTD(1))")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "found the end"),
        ("Nullable(", "found the end"),
        ("Decimal(10 2)", "expected ',' or ')' in Decimal, found '2'"),
        ("Enum8('a' = 'b')", "expected a number after 'a' ="),
        ("UInt8) DROP", "') DROP' follows the type UInt8"),
        ("'UInt8'", "expected the name of a type"),
        ("Array('x", "found ''x'"),
        ("Array(" * 200 + "UInt8" + ")" * 200, "nested more than 100 times"),
    ],
)
def test_text_that_is_not_a_type_is_an_error(text: str, complaint: str) -> None:
    with pytest.raises(InvalidTypeError) as caught:
        parse_type(text)
    assert complaint in str(caught.value)
