"""Positions as JSON, and the conditions that they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamling.connectors.clickhouse.key_types import InvalidKeyValue, KeyType
from streamling.connectors.clickhouse.sort_key import BEGINNING, After, From, KeyColumn, SortKey, between
from streamling.connectors.clickhouse.type_text import parse_type


def sort_key(*types: str) -> SortKey:
    columns = []
    for name, type_ in zip("abcd", types, strict=False):
        key_type = KeyType.of(parse_type(type_))
        assert key_type is not None
        columns.append(KeyColumn(name, key_type))
    return SortKey(tuple("abcd"[: len(types)]), tuple(columns))


#: type, what the server sends for a value, the value in a position, the value in a query
VALUES: list[tuple[str, str, Any, str]] = [
    ("Int8", "-128", -128, "CAST('-128' AS Int8)"),
    ("UInt256", str(2**256 - 1), 2**256 - 1, f"CAST('{2**256 - 1}' AS UInt256)"),
    ("LowCardinality(Int32)", "5", 5, "CAST('5' AS Int32)"),
    ("Float64", "4591870180066957722", "0.1", "reinterpretAsFloat64(toUInt64(4591870180066957722))"),
    ("Float64", "9223372036854775808", "-0.0", "reinterpretAsFloat64(toUInt64(9223372036854775808))"),
    ("Float32", "2139095040", "inf", "reinterpretAsFloat32(toUInt32(2139095040))"),
    ("Decimal(38, 2)", "-1.5", "-1.5", "CAST('-1.5' AS Decimal(38, 2))"),
    ("Bool", "1", True, "true"),
    ("String", "6100", {"hex": "6100"}, "unhex('6100')"),
    ("String", "C3BC27", "ü'", "unhex('C3BC27')"),
    ("String", "FF", {"hex": "FF"}, "unhex('FF')"),
    ("FixedString(2)", "6100", {"hex": "6100"}, "CAST(unhex('6100') AS FixedString(2))"),
    ("Enum8('a' = 1)", "61", "a", "CAST(unhex('61') AS Enum8('a' = 1))"),
    ("Date", "2024-01-31", "2024-01-31", "CAST('2024-01-31' AS Date)"),
    (
        "DateTime64(3, 'Asia/Tokyo')",
        "2024-01-31 12:00:00.5",
        "2024-01-31 12:00:00.5",
        "toDateTime64('2024-01-31 12:00:00.5', 3, 'UTC')",
    ),
    ("UUID", "0-0", "0-0", "CAST('0-0' AS UUID)"),
    ("IPv6", "::1", "::1", "CAST('::1' AS IPv6)"),
]


@pytest.mark.parametrize(("name", "sent", "stored", "sql"), VALUES)
def test_a_value_is_exact_in_a_position_and_in_a_query(name: str, sent: str, stored: Any, sql: str) -> None:
    type_ = KeyType.of(parse_type(name))
    assert type_ is not None
    value = json.loads(json.dumps(type_.parse(sent)))
    assert value == stored
    assert type_.sql(value) == sql


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UInt8", 256),
        ("UInt8", "1); DROP TABLE t"),
        ("Int32", 1.5),
        ("Int32", True),
        ("Float64", 1.5),
        ("Float64", "one"),
        ("Bool", 1),
        ("String", {"hex": "ZZ"}),
        ("String", {"text": "a"}),
        ("String", 5),
        ("Date", 5),
        ("UUID", {"hex": "00"}),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: Any) -> None:
    type_ = KeyType.of(parse_type(name))
    assert type_ is not None
    with pytest.raises(InvalidKeyValue, match="is not a value of type"):
        type_.sql(value)


def test_text_in_a_position_cannot_become_part_of_a_query() -> None:
    type_ = KeyType.of(parse_type("Date"))
    assert type_ is not None
    assert type_.sql("' OR 1 = 1 --\\'") == r"CAST('\' OR 1 = 1 --\\\'' AS Date)"


@pytest.mark.parametrize("name", ["Array(Int32)", "Tuple(Int32)", "Map(String, String)", "Nothing", "JSON"])
def test_types_without_an_order_that_we_know(name: str) -> None:
    assert KeyType.of(parse_type(name)) is None


def test_a_cut_between_values_of_an_integer() -> None:
    key = sort_key("UInt32", "String")
    assert between(From(5), From(9), key) == "(a >= CAST('5' AS UInt32) AND a < CAST('9' AS UInt32))"
    assert between(From(0), From(2**32), key) == "true"
    assert between(From(2**32), None, key) == "false"
    assert between(BEGINNING, None, key) == "true"


def test_a_cut_after_a_tuple() -> None:
    key = sort_key("Int32", "String")
    cut = After((1, "x"))
    a, b = "CAST('1' AS Int32)", "unhex('78')"
    assert cut.rows_after(key) == f"(a > {a} OR (a = {a} AND b > {b}))"
    assert cut.rows_before(key) == f"(a < {a} OR (a = {a} AND (b < {b} OR b = {b})))"


@pytest.mark.parametrize(
    ("value", "after", "before"),
    [
        ("1.5", "(a > {} OR isNaN(a) OR a IS NULL)", "(a < {} OR a = {})"),
        ("nan", "a IS NULL", "(NOT isNaN(a) OR isNaN(a))"),
        (None, "false", "(a IS NOT NULL OR a IS NULL)"),
    ],
)
def test_nan_comes_after_numbers_and_null_after_everything(value: Any, after: str, before: str) -> None:
    key = sort_key("Nullable(Float64)")
    sql = "reinterpretAsFloat64(toUInt64(4609434218613702656))"
    cut = After((value,))
    assert cut.rows_after(key) == after.format(sql)
    assert cut.rows_before(key) == before.format(sql, sql)


def test_positions_are_those_of_the_original() -> None:
    key = sort_key("UInt64", "String")
    assert key.position(From(7)) == {"sorting_keys": ["a", "b"], "args": [7]}
    assert key.position(After((7, "x"))) == {"sorting_keys": ["a", "b"], "args": [7, "x"]}
    for cut in (From(7), From(2**64), After((7, "x")), After((7, {"hex": "FF"}))):
        restored = key.cut(json.loads(json.dumps(key.position(cut))))
        assert (type(restored), restored.values) == (type(cut), cut.values)


def test_one_value_of_another_type_is_the_last_one_that_was_read() -> None:
    restored = sort_key("String").cut({"sorting_keys": ["a"], "args": ["x"]})
    assert isinstance(restored, After)
