"""Decimals whose common type would need more than 38 digits are compared exactly: DataFusion and Spark fail there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from streamling.sql.frames import SparkStatement
from streamling.sql.plan import Column
from streamling.sql.statement import Statement
from streamling.types.spark import to_spark_schema

Value = Decimal | int | None

#: Python would round -HUGE to the 28 digits of its context
HUGE, MINUS_HUGE = (Decimal(f"{sign}98765432109876543210987654321098765432") for sign in ("", "-"))
TYPES = {
    "whole": pa.decimal128(38, 0),
    "cents": pa.decimal128(38, 2),
    "wei": pa.decimal128(38, 18),
    "digits": pa.decimal128(38, 38),
    "fine": pa.decimal128(30, 30),
    "big": pa.int64(),
    "small": pa.int8(),
}
#: with ties, neighbours of ties on both sides of zero, and the largest of each type
VALUES: dict[str, list[Value]] = {
    "whole": [None, Decimal(0), Decimal(3), Decimal(-3), Decimal(2), HUGE, MINUS_HUGE, Decimal("1" + "0" * 20)],
    "cents": [
        None,
        Decimal("0.00"),
        Decimal("3.01"),
        Decimal("-2.99"),
        Decimal("-3.00"),
        Decimal("987654321098765432109876543210987654.32"),
        Decimal("-987654321098765432109876543210987654.32"),
    ],
    "wei": [
        None,
        Decimal(0),
        Decimal(3),
        Decimal(-3),
        Decimal("3.000000000000000001"),
        Decimal("-2.999999999999999999"),
    ]
    + [Decimal(f"{sign}99999999999999999999.999999999999999999") for sign in ("", "-")],
    "digits": [None, Decimal(0), Decimal("0." + "9" * 38), Decimal("-0." + "9" * 38), Decimal("0." + "0" * 37 + "1")],
    "fine": [None, Decimal(0), Decimal("0." + "9" * 30), Decimal("-0.01"), Decimal("-0." + "0" * 29 + "1")],
    "big": [None, 0, 1, -1, 3, 2**63 - 1, -(2**63)],
    "small": [None, 0, 1, -1, 127, -128],
}
PAIRS = [
    ("whole", "wei"),
    ("whole", "cents"),
    ("whole", "digits"),
    ("cents", "wei"),
    ("cents", "fine"),
    ("wei", "digits"),
    ("big", "digits"),
    ("small", "digits"),
    ("big", "fine"),
]


def compared(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool | None]:
    """NULL if one side is."""
    return lambda a, b: None if a is None or b is None else compare(a, b)


OPERATORS: dict[str, Callable[[Value, Value], Any]] = {
    "a = b": compared(lambda a, b: a == b),
    "a <> b": compared(lambda a, b: a != b),
    "a < b": compared(lambda a, b: a < b),
    "a <= b": compared(lambda a, b: a <= b),
    "a > b": compared(lambda a, b: a > b),
    "a >= b": compared(lambda a, b: a >= b),
    "NOT a = b": compared(lambda a, b: a != b),
    "a IS DISTINCT FROM b": lambda a, b: a != b,
    "a IS NOT DISTINCT FROM b": lambda a, b: a == b,
    "a BETWEEN b AND b": compared(lambda a, b: a == b),
    "a NOT BETWEEN b AND b": compared(lambda a, b: a != b),
    "a BETWEEN b AND a": compared(lambda a, b: a >= b),
    "a BETWEEN a AND b": compared(lambda a, b: a <= b),
    "a IN (b)": compared(lambda a, b: a == b),
    "a NOT IN (b)": compared(lambda a, b: a != b),
    "a IN (1, b, NULL)": lambda a, b: True if a is not None and a in (1, b) else None,
    "CASE a WHEN 2 THEN 'two' WHEN b THEN 'b' ELSE 'none' END": lambda a, b: (
        "two" if a == 2 else "b" if a is not None and a == b else "none"
    ),
    "CASE WHEN a < b OR a = b THEN 1 ELSE 2 END": lambda a, b: 1 if None not in (a, b) and a <= b else 2,
}


def comparison_sql(operator: str, a: str, b: str) -> str:
    return " ".join({"a": a, "b": b, "(b)": f"({b})", "b,": f"{b},"}.get(word, word) for word in operator.split())


def frame_of(spark: Any, a: str, b: str, rows: Sequence[tuple[Value, Value]]) -> Any:
    columns = {
        "id": pa.array(range(len(rows))),
        a: pa.array([left for left, _ in rows], TYPES[a]),
        b: pa.array([right for _, right in rows], TYPES[b]),
    }
    table = pa.table(columns)
    return spark.createDataFrame(table, to_spark_schema(table.schema)).coalesce(1)


def evaluated(spark: Any, frame: Any, expressions: Sequence[str]) -> list[list[Any]]:
    items = ", ".join(f"{expression} AS v{number}" for number, expression in enumerate(expressions))
    statement = SparkStatement("node", Statement(f"SELECT id, {items} FROM t"))
    found = statement.apply(spark, {"t": frame}).toArrow().sort_by("id")
    return [found[f"v{number}"].to_pylist() for number in range(len(expressions))]


@pytest.mark.spark
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_every_comparison_is_exact(spark: Any, first: str, second: str) -> None:
    rows = list(product(VALUES[first], VALUES[second]))
    frame = frame_of(spark, first, second, rows)
    wanted = {
        comparison_sql(text, first, second): [meaning(a, b) for a, b in rows] for text, meaning in OPERATORS.items()
    }
    wanted |= {
        comparison_sql(text, second, first): [meaning(b, a) for a, b in rows] for text, meaning in OPERATORS.items()
    }
    found = dict(zip(wanted, evaluated(spark, frame, list(wanted)), strict=True))
    wrong = [
        (text, row, value, right)
        for text, values in found.items()
        for row, value, right in zip(rows, values, wanted[text], strict=True)
        if value != right
    ]
    assert not wrong


@pytest.mark.spark
def test_conditions_are_exact(spark: Any) -> None:
    rows = list(product(VALUES["whole"], VALUES["wei"]))
    frame = frame_of(spark, "whole", "wei", rows)
    statement = SparkStatement("node", Statement("SELECT id FROM t WHERE whole > wei AND wei NOT IN (0, -3, whole)"))
    found = sorted(statement.apply(spark, {"t": frame}).toArrow()["id"].to_pylist())
    right = [
        number for number, (a, b) in enumerate(rows) if a is not None and b is not None and a > b and b not in (0, -3)
    ]
    assert found == right


@pytest.mark.spark
def test_only_what_is_chosen_has_to_fit_the_common_type(spark: Any) -> None:
    rows = [
        (HUGE, Decimal("2.5")),
        (MINUS_HUGE, Decimal("2.5")),
        (Decimal(7), Decimal(7)),
        (None, Decimal(1)),
        (None, None),
    ]
    rows += [(Decimal(2), None), (HUGE, HUGE)]
    smaller = [(Decimal(3), Decimal("2.5")), *rows[:1], *rows[2:6]]
    frame = frame_of(spark, "whole", "wei", smaller)
    [least, other] = evaluated(spark, frame, ["least(whole, wei)", "least(wei, 100, whole)"])
    assert least == [Decimal("2.5"), Decimal("2.5"), Decimal(7), Decimal(1), None, Decimal(2)]
    assert other == [Decimal("2.5"), Decimal("2.5"), Decimal(7), Decimal(1), Decimal(100), Decimal(2)]
    frame = frame_of(spark, "whole", "wei", rows[1:6])
    [greatest, other, left] = evaluated(
        spark, frame, ["greatest(whole, wei)", "greatest(wei, -5, whole)", "nullif(wei, whole)"]
    )
    assert greatest == [Decimal("2.5"), Decimal(7), Decimal(1), None, Decimal(2)]
    assert other == [Decimal("2.5"), Decimal(7), Decimal(1), Decimal(-5), Decimal(2)]
    assert left == [Decimal("2.5"), None, Decimal(1), None, None]


@pytest.mark.spark
@pytest.mark.parametrize("expression", ["greatest(whole, wei)", "nullif(whole, wei)"])
def test_a_chosen_value_that_does_not_fit_is_an_error(spark: Any, expression: str) -> None:
    with pytest.raises(Exception, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        evaluated(spark, frame_of(spark, "whole", "wei", [(HUGE, Decimal(1))]), [expression])


@pytest.mark.spark
@pytest.mark.parametrize(
    ("expression", "right"),
    [
        ("whole > 0.5", [True, False, True]),
        ("0.5 >= whole", [False, True, False]),
        ("whole = 3.0", [False, False, True]),
        ("fine < 12345678901234567890", [True, True, True]),
        ("fine > -1234567890", [True, True, True]),
        ("floor(whole) >= TRY_CAST(3 AS DECIMAL(38, 18))", [True, False, True]),
        ("CASE wei WHEN floor(whole) THEN 1 ELSE 2 END", [2, 2, 1]),
        ("coalesce(whole, 1) > coalesce(wei, 1)", [True, False, False]),
    ],
)
def test_constants_and_types_that_spark_knows_are_compared_exactly(
    spark: Any, expression: str, right: list[Any]
) -> None:
    table = pa.table(
        {
            "id": [0, 1, 2],
            "whole": pa.array([HUGE, MINUS_HUGE, Decimal(3)], TYPES["whole"]),
            "wei": pa.array([Decimal(1), Decimal(2), Decimal(3)], TYPES["wei"]),
            "fine": pa.array([Decimal("0.5"), Decimal("-0.5"), Decimal(0)], TYPES["fine"]),
        }
    )
    frame = spark.createDataFrame(table, to_spark_schema(table.schema)).coalesce(1)
    assert evaluated(spark, frame, [expression]) == [right]


@pytest.mark.parametrize(
    "condition",
    [
        "price > 1",
        "price > 1.5",
        "price = fee",
        "price BETWEEN fee AND 10",
        "price IN (1, fee, NULL)",
        "CASE price WHEN fee THEN TRUE END",
        "wei < 1",
        "wei >= big",
        "fine IN (-1, 2)",
        "greatest(fine, 0) = fine",
        "nullif(price, fee) > 0",
    ],
)
def test_what_fits_38_digits_is_sparks_own_comparison(condition: str) -> None:
    columns = [Column("price", pa.decimal128(20, 4)), Column("fee", pa.decimal128(10, 2)), Column("big", pa.int64())]
    columns += [Column("wei", pa.decimal128(38, 18)), Column("fine", pa.decimal128(38, 30))]
    compiled = Statement(f"SELECT price FROM t WHERE {condition}").compile({"t": columns})
    assert not compiled.problems
    assert "floor" not in str(compiled.plan).lower()
    assert "ceil" not in str(compiled.plan).lower()
