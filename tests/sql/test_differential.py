"""Every function that DataFusion has returns the same here, over edge values, or differs deliberately."""

from __future__ import annotations

import os
from typing import Any

import datafusion as oracle
import pyarrow as pa
import pytest

from streamling.dev.reference.functions import NAMES, verdicts
from streamling.sql.library.registry import functions
from tests.sql.differential import Case, ask_datafusion, ask_spark, expressions, rows

FUNCTIONS = [function for function in functions() if not NAMES.isdisjoint(function.names)]
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "7"))
ROWS = int(os.environ.get("STREAMLING_TEST_ROWS", "40"))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    print(f"STREAMLING_TEST_SEED={SEED} STREAMLING_TEST_ROWS={ROWS}")
    return rows(SEED, ROWS)


@pytest.fixture(scope="module")
def cases(spark: Any, table: pa.Table) -> dict[str, list[Case]]:
    every = [Case(function.name, expression) for function in FUNCTIONS for expression in expressions(function)]
    ask_datafusion(every, table)
    answered = [case for case in every if case.expected is not None]
    ask_spark(spark, answered, table)
    return {function.name: [case for case in answered if case.name == function.name] for function in FUNCTIONS}


@pytest.mark.spark
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_same_as_datafusion_unless_decided(cases: dict[str, list[Case]], table: pa.Table, function: Any) -> None:
    asked = cases[function.name]
    assert any(len(case.failing) < table.num_rows for case in asked), "DataFusion answered none of the calls"
    wrong = [(case.expression, case.error or case.differences[:3]) for case in asked if case.error or case.differences]
    if function.differs:
        assert wrong, "declared as different, but it is not"
        assert not any(case.error for case in asked)
    else:
        assert not wrong


def test_names_of_datafusion_are_those_of_the_package() -> None:
    context = oracle.SessionContext(oracle.SessionConfig().with_information_schema(True))
    query = "SELECT DISTINCT routine_name AS n FROM information_schema.routines WHERE function_type = 'SCALAR'"
    assert {row["n"] for row in context.sql(query).to_arrow_table().to_pylist()} == NAMES


def test_at_least_95_percent_are_equal() -> None:
    found = list(verdicts().values())
    assert found.count("equal") / len(found) >= 0.95
