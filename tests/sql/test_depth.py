"""Long and deep SQL runs; too deep SQL is rejected with a remedy."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest

from streamling.sql.dialect import MAX_DEPTH
from streamling.sql.frames import SparkStatement
from streamling.sql.plan import Column
from streamling.sql.problems import InvalidSql
from streamling.sql.statement import Statement

ROWS = pa.table({"x": [1, 2], "s": ["a", "b"], "b": [True, False], "f": [1.5, 2.5]})
#: `make soak` tries 1000
COUNT = int(os.environ.get("STREAMLING_TEST_TERMS", "300"))
TERMS = range(COUNT)

LONG = {
    "or": (" OR ".join(f"x = {n}" for n in TERMS), [True, True]),
    "sum": (" + ".join(["x"] * COUNT), [COUNT, 2 * COUNT]),
    "concatenation": ("length(" + " || ".join(["s"] * COUNT) + ")", [COUNT, COUNT]),
    "case": ("CASE " + " ".join(f"WHEN x = {n} THEN {n}" for n in TERMS) + " END", [1, 2]),
    "in": (f"x IN ({', '.join(map(str, TERMS))})", [True, True]),
    "coalesce": (f"coalesce({', '.join(['NULL', 'x'] * (COUNT // 2))})", [1, 2]),
    "calls": ("upper(" * MAX_DEPTH + "s" + ")" * MAX_DEPTH, ["A", "B"]),
    "brackets": ("(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH, [1, 2]),
    "cases": ("CASE WHEN b THEN " * 50 + "x" + " END" * 50, [1, None]),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", LONG)
def test_long_and_deep_expressions_run(spark: Any, name: str) -> None:
    sql, expected = LONG[name]
    frame = spark.createDataFrame(ROWS).coalesce(1)
    found = SparkStatement("node", Statement(f"SELECT {sql} AS v FROM t")).apply(spark, {"t": frame}).toArrow()
    assert found["v"].to_pylist() == expected


@pytest.mark.parametrize(
    "sql",
    [
        "(" * (MAX_DEPTH + 1) + "x" + ")" * (MAX_DEPTH + 1),
        "upper(" * 5000 + "s" + ")" * 5000,
        "CASE WHEN b THEN " * (MAX_DEPTH + 1) + "x" + " END" * (MAX_DEPTH + 1),
    ],
    ids=["brackets", "calls", "cases"],
)
def test_too_deep_nesting_is_rejected_with_its_location(sql: str) -> None:
    with pytest.raises(InvalidSql, match="more than 100 levels of parentheses") as refused:
        compiled(sql)
    assert refused.value.problems[0].line == 1
    assert "subquery" in (refused.value.problems[0].remedy or "")


def test_calls_that_multiply_their_argument_end_in_an_error_before_memory_does() -> None:
    [problem] = compiled("round(" * 20 + "f" + ")" * 20).problems[:1]
    assert "too long for Spark" in str(problem)
    assert "subquery" in (problem.remedy or "")


def compiled(sql: str) -> Any:
    return Statement(f"SELECT {sql} AS v FROM t").compile(
        {"t": [Column(field.name, field.type) for field in ROWS.schema]}
    )
