"""The declarations of functions are correct: examples, types, kinds, names, and where they run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

from streamling.dev.reference.functions import speed
from streamling.sql import catalog
from streamling.sql.frames import prepare
from streamling.sql.functions import ALTERNATIVES
from streamling.sql.library import registry
from streamling.sql.plan import Column, sql_expressions
from streamling.sql.problems import SqlProblem
from streamling.sql.statement import Statement

FUNCTIONS = list(registry.functions())
EXAMPLES = [(function, example) for function in FUNCTIONS for example in function.examples.split("\n")]
ROW = [Column("id", pa.int64())]


def test_names_are_declared_once() -> None:
    names = Counter(name for function in FUNCTIONS for name in function.names)
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if name in ALTERNATIVES or name in catalog.AGGREGATES] == []


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_every_function_has_a_description_and_an_example(function: Any) -> None:
    assert function.summary.endswith(".")
    assert all(any(f"{name}(" in example or function.name == "date_part" for name in function.names)
               for example in function.examples.split("\n"))  # fmt: skip


@pytest.fixture(scope="module")
def shown(spark: Any) -> dict[str, Any]:
    frame = spark.createDataFrame(pa.table({"id": [1]}))
    results: dict[str, Any] = {}
    # those with kernels separately: the optimizer computes the others immediately, without compiling anything
    for part in ([e for f, e in EXAMPLES if not f.kernels], [e for f, e in EXAMPLES if f.kernels]):
        sql = "SELECT " + ", ".join(f"({example}) AS v{number}" for number, example in enumerate(part)) + " FROM t"
        compiled = Statement(sql).compile({"t": ROW})
        assert not compiled.problems, compiled.problems
        found = prepare(spark, compiled.plan).run({"t": frame}).toArrow()
        results |= {example: found[f"v{number}"][0].as_py() for number, example in enumerate(part)}
    return results


@pytest.mark.spark
@pytest.mark.parametrize(("function", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_example(shown: dict[str, Any], function: Any, example: str) -> None:
    assert shown[example] is True


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_functions_declare_their_kernels(function: Any) -> None:
    assert ("Arrow" in speed(function)) == bool(function.kernels)


@pytest.mark.parametrize(("function", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_parameters_of_lambdas_cannot_hide_a_column(function: Any, example: str) -> None:
    """Inside a lambda its parameter hides a column of the same name: ours have names that no column has."""
    compiled = Statement(f"SELECT {example} AS v FROM t").compile({"t": ROW})
    tokens = [token for text in sql_expressions(compiled.plan) for token in sqlglot.tokenize(text, read="spark")]
    arrows = [place for place, token in enumerate(tokens) if token.text == "->"]
    hidden = [tokens[place - 1].text for place in arrows if tokens[place - 1].text != ")"]
    hidden += [tokens[place - back].text for place in arrows if tokens[place - 1].text == ")" for back in (2, 4)]
    assert [name for name in hidden if not name.startswith("__")] == []


@pytest.mark.spark
@pytest.mark.parametrize(("expression", "in_python"), [("upper(s)", False), ("_gs_xxhash(s)", True)])
def test_only_a_kernel_needs_a_python_worker(spark: Any, expression: str, in_python: bool) -> None:
    compiled = Statement(f"SELECT {expression} AS v FROM t").compile({"t": [Column("s", pa.string())]})
    frame = prepare(spark, compiled.plan).run({"t": spark.sql("SELECT CAST(id AS STRING) AS s FROM range(1)")})
    assert ("Python" in frame._jdf.queryExecution().executedPlan().toString()) == in_python


def problem_of(expression: str) -> SqlProblem:
    [problem] = Statement(f"SELECT {expression} AS v FROM t").compile({"t": ROW}).problems
    return problem


@pytest.mark.parametrize(
    ("expression", "message", "remedy"),
    [
        ("array_hass([1], 1)", "there is no function array_hass()", "did you mean array_has()?"),
        ("_gs_keccak(id)", "there is no function _gs_keccak()", "did you mean _gs_keccak256()?"),
        ("array_has([1])", "does not take 1 argument(s)", "write array_has(list, element)"),
        ("list_has([1])", "does not take 1 argument(s)", "write list_has(list, element)"),
        ("transform(['a'], x -> _gs_xxhash(x))", "is not allowed inside a lambda", "unnest"),
        ("transform(['a'], x -> json_value(x, '$'))", "is not allowed inside a lambda", "unnest"),
        ("json_value('{}', 'a.b')", "'a.b' is not a JSON path", "followed by"),
        ("json_query('{}', '$', 'STRING', 'SOMEHOW', 'NULL', 'NULL')", "'SOMEHOW' is not a wrapper", "WITHOUT ARRAY"),
        ("encode('a', 'rot13')", "encoding 'rot13' is unknown", "base64"),
        ("digest('a', 'crc')", "hash 'crc' is unknown", "sha256"),
        ("to_char(now(), '%Q')", "format '%Q'", "%Y-%m-%d"),
        ("regexp_like('a', 'a', 'q')", "'q' is not a flag", "flags are"),
        ("union_tag(id)", "the function union_tag() is not supported", "instead"),
        ("json_arrayagg_null_on_null(id)", "combines rows", "postgres_aggregate"),
    ],
)
def test_a_rejected_call_has_a_remedy(expression: str, message: str, remedy: str | None) -> None:
    problem = problem_of(expression)
    assert message in problem.message
    assert (remedy or "") in (problem.remedy or "")
    assert "^" in problem.excerpt
