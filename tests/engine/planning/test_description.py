"""A pipeline described: flows, segments, places, keys; and in Spark's words."""

import pytest
import yaml
from tests.harness.pipelines import Bench, new_run

from streamling.engine.planning.description import describe_plan, spark_plans
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.store import owner, state_store
from streamling.pipeline.config import AppConfig
from streamling.plugins.execution import ExecutionMode
from streamling.sql.library.registry import FAMILIES, family

MIXED = """
sources:
  numbers: {type: numbers, primary_key: id}
  ticks: {type: tick}
transforms:
  first: {type: sql, primary_key: id, sql: "SELECT id, name FROM numbers"}
  second: {type: sql, primary_key: id, sql: SELECT * FROM first WHERE id > 3}
  doubled: {type: double, from: second, parallelism: 2}
  again: {type: double, from: first}
  last: {type: sql, primary_key: id, sql: "SELECT id, double, _gs_op FROM doubled"}
sinks:
  out: {type: ledger, from: last}
  gone: {type: blackhole, from: second}
  other: {type: ledger, from: again}
  clock: {type: ledger, from: ticks}
"""


def _run(text: str, **settings) -> tuple[PipelineRun, dict]:
    config = AppConfig(**settings)
    registry = Bench(None).registry()
    run = new_run(text, registry, config=config)
    return run, {"config": config, "registry": registry, "state": state_store(config).location}


def _describe(text: str, **settings):
    run, given = _run(text, **settings)
    resolved = run.resolve_sources()
    return describe_plan(resolved, schemas=run.check_without_spark(), **given)


def test_neighbours_of_the_same_kind_are_one_segment():
    plan = _describe(MIXED)
    assert [(segment.kind, segment.nodes) for segment in plan.segments] == [
        ("spark", ("first", "second", "gone")),
        ("arrow", ("doubled",)),
        ("arrow", ("again",)),
        ("spark", ("last",)),
    ]
    assert plan.nodes["last"].segment == 4
    assert plan.nodes["out"].segment is None


def test_a_union_joins_the_segments_it_reads():
    plan = _describe("""
sources:
  a: {type: numbers, primary_key: id}
  b: {type: numbers, primary_key: id}
transforms:
  x: {type: sql, primary_key: id, sql: SELECT id FROM a}
  y: {type: sql, primary_key: id, sql: SELECT id FROM b}
  both: {type: sql, primary_key: id, sql: SELECT id FROM x UNION ALL SELECT id FROM y}
sinks:
  out: {type: ledger, from: both}
""")
    assert [segment.nodes for segment in plan.segments] == [("x", "y", "both")]
    assert plan.flows == {"a": ("a", "x", "both", "out"), "b": ("b", "y", "both", "out")}


def test_nodes_that_run_on_the_same_rows_are_one_segment():
    plan = _describe("""
sources:
  a: {type: numbers, primary_key: id}
transforms:
  low: {type: sql, primary_key: id, sql: SELECT id FROM a WHERE id < 3}
  high: {type: sql, primary_key: id, sql: SELECT id FROM a WHERE id > 3}
sinks:
  out: {type: ledger, from: low}
  other: {type: ledger, from: high}
""")
    assert [segment.nodes for segment in plan.segments] == [("low", "high")]


def test_on_one_machine_arrow_runs_in_lanes():
    nodes = _describe(MIXED).nodes
    assert nodes["numbers"].place is ExecutionMode.POLLED
    assert nodes["ticks"].place is ExecutionMode.STREAMED
    assert nodes["first"].place is nodes["gone"].place is ExecutionMode.SPARK
    assert nodes["doubled"].place is nodes["out"].place is ExecutionMode.LANE
    assert nodes["doubled"].instances == 2


def test_on_a_cluster_arrow_transforms_are_part_of_spark_plans():
    plan = _describe(MIXED, spark={"master": "spark://there:7077"})
    assert plan.placement == "cluster"
    assert plan.nodes["doubled"].place is ExecutionMode.SPARK
    assert plan.nodes["out"].place is ExecutionMode.LANE  # it cannot be divided
    assert plan.segments[0].nodes == ("first", "second", "doubled", "again", "last", "gone")


def test_keys_columns_and_ends_are_known_before_spark_is():
    plan = _describe(MIXED)
    assert plan.nodes["last"].primary_key == ("id",)
    assert [(column.name, column.type) for column in plan.nodes["second"].columns or ()] == [
        ("id", "int64"),
        ("name", "string"),
        ("_gs_op", "string"),
    ]
    assert plan.nodes["numbers"].state_keys == ("numbers",)
    assert (plan.nodes["numbers"].bounded, plan.nodes["ticks"].bounded, plan.bounded) == (True, False, False)


@pytest.mark.parametrize(
    ("key", "node"),
    [
        ("orders", "orders"),
        ("orders:topic:3", "orders"),
        ("orders[2]", "orders"),
        ("clickhouse_source:orders:v1", "orders"),
        ("hybrid_source_orders_v1", "orders"),
        ("raw:orders:watermark", "raw"),
    ],
)
def test_a_state_key_belongs_to_its_node(key, node):
    assert owner(key) == node


def test_declared_names_settle_what_a_key_leaves_open():
    assert owner("raw:orders:watermark", frozenset({"raw", "raw:orders"})) == "raw:orders"


def test_the_location_of_the_state_is_shown_without_secrets():
    postgres = {"host": "db", "password": "hunter2"}
    assert (
        state_store(AppConfig(state_backend={"backend_type": "InMemory"})).location
        == "in memory (not kept after the run)"
    )
    text = state_store(AppConfig(state_backend={"backend_type": "Postgres", "postgres": postgres})).location
    assert text == "streamling.state at db:5432/streamling"


@pytest.mark.spark
def test_spark_plans_are_shown_where_rows_leave_a_segment(spark):
    run, given = _run(MIXED)
    resolved = run.resolve_sources()
    segments = describe_plan(resolved, schemas={}, **given).segments
    plans = spark_plans(run.analyse(spark), segments, "local[*]")
    assert {number: list(nodes) for number, nodes in plans.items()} == {1: ["first", "second"], 4: ["last"]}
    second = plans[1]["second"]
    assert "Filter" in second
    assert "rows of numbers" in second
    assert "#" not in second


@pytest.mark.spark
def test_on_a_cluster_the_plan_holds_the_arrow_steps(spark):
    run, given = _run(MIXED, spark={"master": "spark://there:7077"})
    segments = describe_plan(run.resolve_sources(), schemas={}, **given).segments
    plans = spark_plans(run.analyse(spark), segments, "spark://there:7077")
    assert "MapInArrow" in plans[1]["last"]


@pytest.mark.spark
def test_spark_has_a_plan_for_every_function_of_the_library(spark):
    """One node per family of functions, and one that asks a dynamic table."""
    nodes = {
        f"of_{name}": "SELECT id, "
        + ", ".join(
            f"({example}) AS v{number}"
            for number, example in enumerate(each for one in family(name) for each in one.examples.splitlines())
        )
        + " FROM numbers"
        for name in FAMILIES
    }
    nodes["asked"] = "SELECT id, dynamic_table_check('known', name) AS v FROM numbers"
    text = yaml.safe_dump(
        {
            "sources": {"numbers": {"type": "numbers", "primary_key": "id"}},
            "transforms": {
                "known": {"type": "dynamic_table", "backend_type": "InMemory", "backend_entity_name": "known"},
                **{name: {"type": "sql", "primary_key": "id", "sql": sql} for name, sql in nodes.items()},
            },
            "sinks": {f"{name}_out": {"type": "blackhole", "from": name} for name in nodes},
        }
    )
    run, given = _run(text)
    segments = describe_plan(run.resolve_sources(), schemas={}, **given).segments
    plans = spark_plans(run.analyse(spark), segments, "local[*]")
    assert {name for nodes_of in plans.values() for name in nodes_of} == set(nodes)
