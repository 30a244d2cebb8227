"""Tables whose content is the same for all rows of a batch: Spark looks up values itself."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.memory import collected_rows
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.sql.plan import ROW
from streamling.transforms.dynamic_table.transform import DynamicTableTransform, DynamicTableTransformOptions
from tests.transforms.dynamic_table.pipelines import run_pipeline

pytestmark = pytest.mark.spark

PIPELINE = """
sources:
  s: {type: given, primary_key: id}
transforms:
  known: {type: dynamic_table, backend_type: InMemory, backend_entity_name: known}
  checked:
    type: sql
    primary_key: id
    sql: |
      SELECT id, dynamic_table_check('known', v) AS plain, dynamic_table_check('known', tags) AS any_of,
             dynamic_table_check('known', NULL) AS nothing, NOT dynamic_table_check('known', upper(v) || '') AS made
      FROM s WHERE id > 0 AND coalesce(NOT dynamic_table_check('known', w), true)
  elements:
    type: sql
    primary_key: id
    sql: |
      SELECT id, tag FROM (SELECT id, unnest(tags) AS tag FROM s) AS t WHERE dynamic_table_check('known', tag)
      UNION ALL SELECT id, v AS tag FROM s WHERE dynamic_table_check('known', v)
sinks:
  out: {type: memory, from: checked}
  parts: {type: memory, from: elements}
"""


@pytest.fixture
def never_in_python(monkeypatch):
    """Fails if values are sent to this process."""
    monkeypatch.setattr(DynamicTableTransform, "contains", lambda *_: pytest.fail("values came to Python"))


def left_behind(*values: str) -> MemoryState:
    """Return the state of a run whose values are stored in the table at the next start."""
    state = MemoryState()
    state.put("dynamic_table:known", list(values))
    return state


def test_scalars_lists_nulls_and_elements_are_looked_up_by_spark(spark, never_in_python):
    batch = [
        {"id": 1, "v": "a", "tags": ["x", None, "B"]},
        {"id": 2, "v": "b", "tags": ["x"]},
        {"id": 3, "v": None, "tags": None},
        {"id": 4, "v": "", "tags": []},
        {"id": 5, "v": "a", "w": "a", "tags": [None]},
        {"id": 0, "v": "a", "tags": ["a", "a"]},
    ]
    run = run_pipeline(spark, PIPELINE, {"s": [batch]}, state=left_behind("a", "B", "ü"))
    answers = collected_rows(run, "out").drop(["_gs_op"]).to_pylist()
    assert [tuple(row.values()) for row in answers] == [
        (1, True, True, None, True),
        (2, False, False, None, False),
        (3, None, None, None, None),
        (4, False, False, None, True),
    ]
    parts = collected_rows(run, "parts").select(["id", "tag"]).to_pydict().values()
    assert sorted(zip(*parts, strict=True)) == [(0, "a"), (0, "a"), (0, "a"), (1, "B"), (1, "a"), (5, "a")]


def test_tables_of_both_kinds_in_one_statement(spark):
    text = """
sources:
  s: {type: given, primary_key: id}
transforms:
  known: {type: dynamic_table, backend_type: InMemory, backend_entity_name: known}
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: SELECT v FROM s}
  first:
    type: sql
    primary_key: id
    sql: >
      SELECT id, dynamic_table_check('known', w) AS w FROM s
      WHERE dynamic_table_check('known', v) AND NOT dynamic_table_check('seen', v)
sinks:
  out: {type: memory, from: first}
"""
    batch = [{"id": number, "v": v, "w": w} for number, (v, w) in enumerate(["aa", "aa", "xa", "bx", "b?"])]
    table = collected_rows(run_pipeline(spark, text, {"s": [batch]}, state=left_behind("a", "b")), "out")
    assert table.select(["id", "w"]).to_pydict() == {"id": [0, 3], "w": [True, False]}


# ── what Spark reads ──────────────────────────────────────────────────────────────────────────────────────


def table_of(fields: dict[str, Any], **settings: Any) -> DynamicTableTransform:
    options = {"type": "dynamic_table", "backend_type": "InMemory", "backend_entity_name": "t", **fields}
    return DynamicTableTransform(
        NodeContext(
            name="seen",
            options=DynamicTableTransformOptions.model_validate(options),
            config=AppConfig(dynamic_table_backend=settings),
            state=MemoryState(),
            metrics=NoopMetrics(),
        )
    )


def emit(table: DynamicTableTransform, values: list[str], epoch: int) -> None:
    table.before_emit(pa.table({"v": values, ROW: list(range(len(values)))}), epoch)


def elsewhere(work: Any) -> None:
    """Another flow does it."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def found(spark, table: DynamicTableTransform) -> set[str]:
    from pyspark.sql import functions as f

    lookup_expression = table.lookup_expression(spark)
    assert lookup_expression is not None
    frame = spark.createDataFrame([(letter,) for letter in "abcdef"], "v string")
    return {row.v for row in frame.where(lookup_expression(f.col("v"))).collect()}


def test_values_of_other_flows_are_seen_when_their_batch_is_complete(spark):
    table = table_of({})
    elsewhere(lambda: emit(table, ["a"], 0))
    assert found(spark, table) == set()
    table.after_emit(complete=True)
    assert found(spark, table) == {"a"}
    elsewhere(lambda: emit(table, ["b"], 0))
    table.after_emit(complete=False)
    table.finalized(1)
    elsewhere(lambda: emit(table, ["a", "c"], 1))
    table.after_emit(complete=True)
    table.finalized(2)
    assert found(spark, table) == {"a", "c"}


def test_rows_that_fill_the_table_they_query_are_not_looked_up_by_spark(spark):
    table = table_of({})
    emit(table, ["a"], 0)
    assert table.lookup_expression(spark) is None
    table.after_emit(complete=True)
    emit(table, [], 0)
    assert found(spark, table) == {"a"}


@pytest.mark.services
def test_a_cached_table_includes_writes_of_others_and_one_without_cache_is_not_sent(spark, schema):
    schema.create("value TEXT PRIMARY KEY, updated_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()")
    schema.execute("INSERT INTO {t} VALUES ('a'), ('b')")
    cached = {"time_column": "updated_at", "cache": True, "cache_refresh_debounce_ms": 0}
    table = table_of({"backend_type": "Postgres", **cached}, postgres=schema.settings)
    assert found(spark, table) == {"a", "b"}
    schema.execute("INSERT INTO {t} VALUES ('d')")
    assert found(spark, table) == {"a", "b", "d"}
    table.close()
    assert table_of({"backend_type": "Postgres"}, postgres=schema.settings).lookup_expression(spark) is None
