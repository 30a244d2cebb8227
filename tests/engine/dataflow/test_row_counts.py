"""Rows per sink at the end of a run: for every sink, however it is written, and without what was rejected."""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.engine.dataflow.test_sql_flows import pipeline, sql
from tests.harness.pipelines import Bench, eventually, finish

from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SinkOptions
from streamling.plugins.sinks import FrameSink

pytestmark = pytest.mark.spark


class CollectingSink(FrameSink[SinkOptions]):
    """Spark reads the rows; the sink does not count them."""

    Options = SinkOptions

    def write_frame(self, frame):
        frame.collect()


class IgnoringSink(FrameSink[SinkOptions]):
    """Never lets Spark compute what it is given."""

    Options = SinkOptions

    def write_frame(self, frame):
        frame.columns  # noqa: B018


class PlanSink(FrameSink[SinkOptions]):
    """Counts the rows, and the counters in each plan."""

    Options = SinkOptions
    counts_rows = True
    counters: ClassVar[list[int]] = []

    def write_frame(self, frame):
        plan = str(frame._jdf.queryExecution().analyzed())
        self.counters.append(plan.count("CollectMetrics") + plan.count("RowCounter"))
        return len(frame.collect())


class WithSinks(Bench):
    def registry(self):
        registry = super().registry()
        registry.register(NodeKind.SINK, "collecting", CollectingSink)
        registry.register(NodeKind.SINK, "ignoring", IgnoringSink)
        registry.register(NodeKind.SINK, "plans", PlanSink)
        return registry


@pytest.fixture
def bench(spark) -> WithSinks:
    return WithSinks(spark)


SINKS = """hole: {type: blackhole, from: high}
collected: {type: collecting, from: high}
kept: {type: memory, from: high}
direct: {type: blackhole, from: numbers}"""


@pytest.mark.parametrize("observed", [False, True])
def test_every_sink_is_counted_with_and_without_exported_metrics(bench, observed):
    high = sql("even", "SELECT * FROM numbers WHERE id % 2 = 0") + sql("high", "SELECT * FROM even WHERE id >= 40")
    run = bench.run(pipeline(high, SINKS), count_in_spark=observed)
    assert run.rows_written() == {"hole": 30, "collected": 30, "kept": 30, "direct": 100}
    assert run.summary() == "30 to hole, 30 to collected, 30 to kept, 100 to direct"
    seen = {name: run.metrics.value("output_rows", name) for name in run.rows_written()}
    assert seen == run.rows_written()


@pytest.mark.parametrize(
    ("text", "rows", "counters"),
    [
        ("SELECT value + 1 AS id, upper('a') AS a FROM flood", 1, 0),
        ("SELECT * FROM (SELECT value AS id, value * 2 AS twice FROM flood) AS pairs", 1, 0),
        ("SELECT value AS id FROM flood WHERE value % 2 = 0", 0.5, 1),
        ("SELECT value AS id, unnest(make_array(1, 2)) AS part FROM flood", 2, 1),
    ],
)
def test_rows_are_counted_inside_a_plan_only_if_their_number_changes(bench, text, rows, counters):
    PlanSink.counters.clear()
    source = "flood: {type: flood, primary_key: value}"
    run = bench.start(pipeline(sql("made", text), "out: {type: plans, from: made}", source), count_in_spark=True)
    eventually(lambda: run.failure or len(PlanSink.counters) >= 4)
    run.stop("enough")
    finish(run)
    # whether a query keeps all rows is known after the first batch
    assert set(PlanSink.counters[1:]) == {counters}
    taken, made = run.metrics.value("output_rows", "flood"), run.metrics.value("output_rows", "made")
    assert taken > 0
    assert made == taken * rows
    assert run.metrics.value("input_rows", "made") == taken
    assert run.metrics.value("input_rows", "out") == run.rows_written()["out"] == made


@pytest.mark.parametrize("sink", ["blackhole", "collecting"])
def test_a_stream_that_ends_in_spark_is_counted(bench, sink):
    run = bench.start(
        pipeline(
            sql("tens", "SELECT value AS id FROM flood WHERE value % 10 = 0"),
            f"out: {{type: {sink}, from: tens}}",
            "flood: {type: flood, primary_key: value}",
        )
    )
    eventually(lambda: run.failure or run.rows_written().get("out", 0) >= 30)
    run.stop("enough")
    finish(run)
    rows = run.rows_written()["out"]
    assert rows % 10 == 0
    assert run.metrics.value("output_rows", "out") == rows


def test_a_sink_that_never_computes_its_rows_is_waited_for_once(bench):
    """The pipeline has ten batches."""
    same = sql("same", "SELECT * FROM numbers")
    run = bench.run(pipeline(same, "out: {type: ignoring, from: same}"))
    assert run.summary() == "0 to out"
