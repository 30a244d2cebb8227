"""The walk down the graph: columns as far as they are known, and all errors together."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.pipelines import Bench, new_run

from streamling.engine.run.run import PipelineRun
from streamling.errors import InvalidPipeline

#: two wrong transforms, and nodes below them that are not to blame
WRONG = """
sources:
  numbers: {type: numbers, primary_key: id}
transforms:
  first: {type: sql, primary_key: id, sql: "SELECT id, nope FROM numbers"}
  second: {type: sql, primary_key: missing, sql: "SELECT id FROM numbers"}
  below: {type: double, from: first}
sinks:
  out: {type: ledger, from: below}
  other: {type: ledger, from: second}
"""
#: only Spark knows that the number is too big
WRONG_FOR_SPARK = """
sources:
  numbers: {type: numbers, primary_key: id}
transforms:
  first: {type: sql, primary_key: id, sql: "SELECT id, 1e999 AS x FROM numbers"}
  second: {type: sql, primary_key: id, sql: "SELECT id, 1e888 AS y FROM numbers"}
  below: {type: double, from: first}
sinks:
  out: {type: ledger, from: below}
  other: {type: ledger, from: second}
"""


def _run(text: str) -> PipelineRun:
    return new_run(text, Bench(None).registry())


def _messages(raised: pytest.ExceptionInfo[InvalidPipeline]) -> list[str]:
    return [problem.message.partition(":")[0] for problem in raised.value.problems]


def test_the_errors_of_all_nodes_are_reported_and_none_below_them():
    with pytest.raises(InvalidPipeline) as raised:
        _run(WRONG).check_without_spark()
    assert _messages(raised) == ["sql transform 'first'", "sql transform 'second'"]


def test_columns_are_followed_through_every_kind_of_node():
    schemas = _run("""
sources:
  numbers: {type: numbers, primary_key: id}
transforms:
  named: {type: sql, primary_key: id, sql: "SELECT id, name AS called FROM numbers"}
  doubled: {type: double, from: named}
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: "SELECT called FROM doubled"}
sinks:
  out: {type: ledger, from: doubled}
""").check_without_spark()
    names: dict[str, Any] = {name: None if schema is None else schema.names for name, schema in schemas.items()}
    assert names["named"] == ["id", "called", "_gs_op"]
    assert names["doubled"] == names["seen"] == names["out"] == ["id", "called", "_gs_op", "double"]


@pytest.mark.spark
def test_the_walk_with_spark_reports_the_same_way(spark):
    run = _run(WRONG_FOR_SPARK)
    run.check_without_spark()
    with pytest.raises(InvalidPipeline) as raised:
        run.analyse(spark)
    assert _messages(raised) == ["sql transform 'first'", "sql transform 'second'"]
