"""The names known without a JVM are those of a running Spark."""

from __future__ import annotations

from typing import Any

import datafusion as oracle
import pytest

from streamling.spark.unsafe_functions import UNSAFE_FUNCTIONS
from streamling.sql import catalog
from streamling.sql.statement import Statement

#: operators and syntax that Spark lists among its functions
_SYNTAX = {"and", "or", "not", "in", "like", "ilike", "rlike", "regexp", "between", "case", "when", "div", "mod"}
_SYNTAX |= {"cast", "extract"}


@pytest.mark.spark
def test_every_function_of_spark_is_in_exactly_one_group(spark: Any) -> None:
    names = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    names = {name for name in names if name.isidentifier()} - _SYNTAX
    groups = [catalog.SCALARS, catalog.AGGREGATES, catalog.WINDOWS, catalog.GENERATORS, UNSAFE_FUNCTIONS]
    assert {name: sum(name in group for group in groups) for name in names} == dict.fromkeys(names, 1)


def test_every_scalar_function_of_datafusion_is_supported_or_rejected_with_an_alternative() -> None:
    context = oracle.SessionContext()
    context.sql("SET datafusion.catalog.information_schema = true").collect()
    query = "SELECT DISTINCT routine_name AS n FROM information_schema.routines WHERE function_type = 'SCALAR'"
    names = [row["n"] for row in context.sql(query).to_arrow_table().to_pylist()]
    names = sorted(set(names) - {"position", "overlay"})  # these two have special syntax
    problems = [p for name in names for p in Statement(f"SELECT {name}(a) FROM t").compile({"t": None}).problems]
    without_remedy = [p for p in problems if "instead" not in (p.remedy or "")]
    # functions that reach the file system or the JVM are rejected deliberately; not all accept one argument
    expected = ("not allowed", "does not take 1 argument(s)")
    assert [p.message for p in without_remedy if not any(words in p.message for words in expected)] == []
