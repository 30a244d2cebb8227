"""Event times of sources, transforms and sinks, wherever their rows are."""

from __future__ import annotations

import pytest
from tests.engine.dataflow.test_sql_flows import pipeline
from tests.harness.pipelines import eventually

from streamling.engine.run.run import PipelineRun
from streamling.observe.telemetry.metrics import Distribution

pytestmark = pytest.mark.spark

TIMES = "telemetry: {event_time: {column: id, unit: seconds}}"
SOURCE = f"numbers: {{type: numbers, rows: 100, primary_key: id, {TIMES}}}"
HIGH = f"high: {{type: sql, primary_key: id, sql: 'SELECT * FROM numbers WHERE id < 40', {TIMES}}}"


def measured(run: PipelineRun, node: str) -> tuple[float | None, int]:
    """The watermark, and how many rows have a lag."""
    run.metrics.snapshot()
    lag = run.metrics.value("event_time_lag", node)
    watermark = run.metrics.value("event_time_watermark", node)
    assert watermark is None or isinstance(watermark, float)
    return watermark, lag.count if isinstance(lag, Distribution) else 0


@pytest.mark.parametrize(
    "sink",
    ["out: {type: ledger, from: high, TIMES}", "out: {type: blackhole, from: high, TIMES}"],
    ids=["in Python", "in Spark"],
)
def test_each_node_has_its_own_event_times(bench, sink):
    """The ids 0 to 99 as seconds; 40 rows pass the SQL."""
    run = bench.run(pipeline(HIGH, sink.replace("TIMES", TIMES), SOURCE))
    assert measured(run, "numbers") == (99_000, 100)
    eventually(lambda: measured(run, "high") == (39_000, 40))
    eventually(lambda: measured(run, "out") == (39_000, 40))
    lag = run.metrics.value("event_time_lag", "out")
    assert isinstance(lag, Distribution)
    assert lag.buckets[-1] == 40, "rows of 1970 are older than all bounds"


def test_nodes_without_the_setting_have_no_series(bench):
    run = bench.run(pipeline(HIGH.replace(f", {TIMES}", ""), "out: {type: ledger, from: high}"))
    assert not [series for series in run.metrics.snapshot() if series.name.startswith("event_time")]


def test_a_missing_column_only_warns(bench, caplog):
    source = SOURCE.replace("column: id", "column: nothing")
    run = bench.run(pipeline("", "out: {type: ledger, from: numbers}", source))
    assert len(bench.ids("out")) == 100
    assert measured(run, "numbers") == (None, 0)
    assert caplog.text.count("telemetry.event_time is not measured: there is no column 'nothing'") == 1


def test_the_topology_shows_watermark_and_lag(bench):
    from streamling.engine.run.observed import ObservedRun

    run = bench.run(pipeline("", "out: {type: ledger, from: numbers}", SOURCE))
    shown = ObservedRun(run, name="p", application_id="p", jvm_megabytes=lambda: None)
    (numbers, out) = shown.topology()["nodes"]
    assert numbers["event_time"]["watermark"] == "1970-01-01T00:01:39.000+00:00"
    assert numbers["event_time"]["lag_s"] > 1e9
    assert out["event_time"] is None
