"""What the engine measures of pipelines: rows in and out of every node, however it runs, and time."""

from __future__ import annotations

import logging

import pytest
from tests.engine.dataflow.test_sql_flows import pipeline, sql
from tests.harness.pipelines import Bench, DoubleTransform, eventually, finish

from streamling.connectors.memory import collected_rows
from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError
from streamling.observe.telemetry.metrics import Distribution
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry

pytestmark = pytest.mark.spark


def counts(run: PipelineRun, *nodes: str, prefix: str = "") -> dict[str, tuple[float | None, float | None]]:
    """Rows in and out."""
    return {
        node: tuple(run.metrics.value(f"{prefix}{name}", node) for name in ("input_rows", "output_rows"))
        for node in nodes
    }


def jobs(run: PipelineRun, node: str, name: str = "elapsed_compute") -> int:
    """How often time was measured, apart from the millisecond that every series begins with."""
    took = run.metrics.value(name, node)
    assert isinstance(took, Distribution)
    assert took.sum >= 1
    return took.count - 1


def test_a_filter_is_seen_in_the_rows_of_its_node(bench):
    run = bench.run(
        pipeline(sql("high", "SELECT * FROM numbers WHERE id >= 40"), "out: {type: memory, from: high}"),
    )
    assert counts(run, "numbers", "high", "out") == {"numbers": (None, 100), "high": (100, 60), "out": (60, 60)}
    assert jobs(run, "high") == 10
    assert run.metrics.value("elapsed_compute", "out") is None


def test_unnest_is_seen_in_the_rows_of_the_plan_inside_its_node(bench):
    run = bench.run(
        pipeline(
            sql("parts", "SELECT id, unnest(split(name, '')) AS part FROM numbers"), "out: {type: memory, from: parts}"
        )
    )
    rows = collected_rows(run, "out").num_rows
    assert rows > 200
    assert counts(run, "parts", prefix="df_") == {"parts": (100, rows)}
    assert jobs(run, "parts", "df_elapsed_compute") == 10


def test_nodes_that_are_fused_into_one_plan_are_counted_when_someone_looks(bench):
    chain = pipeline(
        sql("even", "SELECT * FROM numbers WHERE id % 2 = 0") + sql("high", "SELECT * FROM even WHERE id >= 90"),
        "out: {type: blackhole, from: high}",
    )
    run = bench.run(chain, count_in_spark=True)
    assert counts(run, "numbers", "even", "high", "out") == {
        "numbers": (None, 100),
        "even": (100, 50),
        "high": (50, 5),
        "out": (5, 5),
    }
    bench.state.clear()
    assert counts(bench.run(chain), "numbers", "even", "out") == {
        "numbers": (None, 100),
        "even": (100, 0),
        "out": (5, 5),
    }


def test_rows_that_several_nodes_take_are_counted_once_where_they_come_from(bench):
    run = bench.run(
        pipeline(
            sql("even", "SELECT * FROM numbers WHERE id % 2 = 0")
            + sql("high", "SELECT * FROM even WHERE id >= 90")
            + "double: {type: double, from: even}\n",
            "a: {type: blackhole, from: high}\nb: {type: ledger, from: double}\nc: {type: blackhole, from: even}",
        ),
        count_in_spark=True,
    )
    assert counts(run, "even", "high", "double", "a", "b", "c") == {
        "even": (100, 50),
        "high": (50, 5),
        "double": (50, 50),
        "a": (5, 5),
        "b": (50, 50),
        "c": (50, 50),
    }
    assert jobs(run, "double") == 10


def test_union_adds_up_what_comes_from_all_sides(bench):
    run = bench.run(
        pipeline(
            sql("both", "SELECT id FROM a UNION ALL SELECT id FROM b"),
            "out: {type: memory, from: both}",
            "a: {type: numbers, rows: 30, primary_key: id}\nb: {type: numbers, rows: 20, first: 100, primary_key: id}",
        ),
        count_in_spark=True,
    )
    assert counts(run, "a", "b", "both", "out") == {"a": (None, 30), "b": (None, 20), "both": (50, 50), "out": (50, 50)}


def test_rows_below_a_condition_that_nothing_meets(bench):
    run = bench.run(
        pipeline(
            sql("a", "SELECT * FROM numbers WHERE id >= 0") + sql("none", "SELECT * FROM a WHERE 1 = 0"),
            "out: {type: blackhole, from: none}",
        ),
        count_in_spark=True,
    )
    assert counts(run, "numbers", "none", "out") == {"numbers": (None, 100), "none": (0, 0), "out": (0, 0)}


@pytest.mark.parametrize("sink", ["blackhole", "memory"])
def test_a_stream_counts_inside_its_plan(bench, sink):
    run = bench.start(
        pipeline(
            sql("even", "SELECT value AS id FROM flood WHERE value % 2 = 0")
            + sql("tens", "SELECT * FROM even WHERE id % 10 = 0"),
            f"out: {{type: {sink}, from: tens}}",
            "flood: {type: flood, primary_key: value}",
        ),
        count_in_spark=True,
    )
    eventually(lambda: run.metrics.value("output_rows", "tens") >= 50)
    run.stop("enough")
    finish(run)
    seen = counts(run, "flood", "even", "tens", "out")
    rows = seen["flood"][1]
    assert rows >= 500
    assert rows % 100 == 0
    assert seen == {
        "flood": (None, rows),
        "even": (rows, rows / 2),
        "tens": (rows / 2, rows / 10),
        "out": (rows / 10, rows / 10),
    }
    assert jobs(run, "tens") == rows / 100


def test_a_stream_whose_rows_fill_a_table_counts_each_of_them_once(bench):
    run = bench.start(
        pipeline(
            sql("even", "SELECT value::text AS id FROM flood WHERE value % 2 = 0")
            + "seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: s, sql: SELECT id FROM even}\n"
            + sql("new", "SELECT * FROM even WHERE NOT dynamic_table_check('seen', id)"),
            "out: {type: memory, from: new}",
            "flood: {type: flood, primary_key: value}",
        ),
        count_in_spark=True,
    )
    eventually(lambda: run.metrics.value("output_rows", "new") >= 150)
    run.stop("enough")
    finish(run)
    seen = counts(run, "flood", "even", "new", "out")
    rows = seen["flood"][1]
    assert seen == {
        "flood": (None, rows),
        "even": (rows, rows / 2),
        "new": (rows / 2, rows / 2),
        "out": (rows / 2,) * 2,
    }


def test_checkpoints_are_measured(bench):
    run = bench.run(pipeline(sql("all", "SELECT * FROM numbers"), "out: {type: ledger, from: all}"))
    value = run.metrics.value
    assert value("checkpoint_epochs_succeeded") == value("checkpoint_finalizers_sent") >= 1
    assert value("checkpoint_acks_received") >= value("checkpoint_epochs_succeeded")
    assert value("checkpoint_epoch_duration").count == value("checkpoint_epochs_succeeded")


class Measured(DoubleTransform):
    """A plugin that measures, and says what it talks to."""

    def labels(self):
        return {"tier": "of the plugin"}

    def process(self, batch):
        self.context.metrics.count("evens", batch.num_rows // 2, {"parity": "even"})
        self.context.metrics.gauge("width", batch.num_columns)
        self.context.metrics.latency("thinking", 0.2)
        return super().process(batch)


class TwoKinds(DoubleTransform):
    def process(self, batch):
        self.context.metrics.count("seen")
        self.context.metrics.gauge("seen", 1)
        return super().process(batch)


class PluginBench(Bench):
    def registry(self) -> Registry:
        registry = super().registry()
        registry.register(NodeKind.TRANSFORM, "measured", Measured)
        registry.register(NodeKind.TRANSFORM, "two_kinds", TwoKinds)
        return registry


def test_what_a_plugin_measures_carries_its_labels_and_those_of_the_file(spark, caplog):
    transform = """
double:
  type: measured
  from: numbers
  parallelism: 2
  telemetry: {labels: {team: data, tier: of the file}}
"""
    with caplog.at_level(logging.WARNING, "streamling"):
        run = PluginBench(spark).run(
            pipeline(transform.strip(), "out: {type: ledger, from: double}"), application_id="shop"
        )
    reported = {series.name: series for series in run.metrics.snapshot() if series.tags.get("id") == "double"}
    tags = {
        "id": "double",
        "topology_node_type": "transform",
        "operator_type": "measured",
        "type": "measured",
        "service_instance_id": "shop",
        "team": "data",
        "tier": "of the plugin",
    }
    assert reported["evens"].tags == {**tags, "parity": "even"}
    assert reported["width"].tags == tags
    assert reported["width"].value == 3
    assert isinstance(reported["thinking"].value, Distribution)
    assert reported["thinking"].value.sum == pytest.approx(200 * reported["thinking"].value.count)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning == (
        "measured transform 'double': label tier is 'of the plugin' as reported by the node; "
        "ignoring 'of the file' from telemetry.labels"
    )


def test_a_plugin_that_uses_one_name_for_two_kinds_of_metrics_gets_an_error(spark):
    with pytest.raises(
        StreamlingError, match=r"two_kinds transform 'double'.*'seen' is a counter and cannot also be a gauge"
    ):
        PluginBench(spark).run(
            pipeline("double: {type: two_kinds, from: numbers}", "out: {type: ledger, from: double}")
        )
