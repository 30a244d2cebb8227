"""What a run shows about itself, and how it is controlled."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.engine.dataflow.test_sql_flows import pipeline, sql
from tests.harness.pipelines import Bench, eventually, finish

from streamling.engine.run.observed import ObservedRun
from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError

pytestmark = pytest.mark.spark

TEXT = pipeline(
    sql("high", "SELECT id, name FROM numbers WHERE id >= 40"),
    "out: {type: ledger, from: high}",
    "numbers: {type: numbers, rows: 100, batch: 10, ends: false, primary_key: id}",
)


@contextmanager
def running(bench: Bench, text: str = TEXT, **settings) -> Iterator[tuple[PipelineRun, ObservedRun]]:
    run = bench.start(text, **settings)
    try:
        yield run, observed(run)
    finally:
        run.stop("the test is over", True)
        finish(run)


def observed(run: PipelineRun) -> ObservedRun:
    return ObservedRun(run, name="shop", application_id="shop_v1", jvm_megabytes=lambda: 1.5)


def test_the_topology_of_a_running_pipeline(bench):
    with running(bench) as (run, shown):
        eventually(lambda: len(bench.ids("out")) == 60)
        topology = shown.topology()
        assert (topology["pipeline"], topology["application_id"], topology["state"]) == ("shop", "shop_v1", "running")
        assert 1 <= topology["epoch"] <= run.epoch
        assert topology["checkpoint_age_s"] >= 0
        assert topology["memory"]["python_mb"] > 10
        assert topology["error"] is None
        numbers, high, out = topology["nodes"]
        assert (numbers["kind"], high["kind"], out["kind"]) == ("source", "transform", "sink")
        assert [(node["rows_in"], node["rows_out"]) for node in (numbers, high, out)] == [
            (100, 100),
            (100, 60),
            (60, 60),
        ]
        assert high["definition"] == "SELECT id, name FROM numbers WHERE id >= 40"
        assert high["schema"][0] == {"name": "id", "type": "int64", "nullable": True}
        assert high["location"].endswith(":4")
        assert out["definition"] == "type: ledger\nfrom: high\n"
        assert [(edge["from"], edge["to"], edge["rows"]) for edge in topology["edges"]] == [
            ("numbers", "high", 100),
            ("high", "out", 60),
        ]
        json.dumps(topology)


def test_the_history_has_the_rows_of_the_run_and_of_its_nodes(bench):
    with running(bench) as (_, shown):
        eventually(lambda: len(bench.ids("out")) == 60)
        shown.record(time.time())
        rows = {}
        for node in (None, "numbers", "high", "out"):
            history = shown.history(1, node)
            rows[node] = [round(history[field][0] * history["interval_s"]) for field in ("rate_in", "rate_out")]
        assert rows == {None: [100, 60], "numbers": [100, 100], "high": [100, 60], "out": [60, 60]}


def test_updates_leave_out_what_never_changes(bench):
    with running(bench) as (_, shown):
        full, update = shown.topology()["nodes"][0], shown.topology(full=False)["nodes"][0]
        assert full.keys() - update.keys() == {"schema", "definition", "description"}


def test_rows_inside_a_plan_of_spark_are_shown_although_nobody_counts_them(bench):
    text = pipeline(
        sql("high", "SELECT * FROM numbers WHERE id >= 40"),
        "hole: {type: blackhole, from: high}",
        "numbers: {type: numbers, rows: 100, primary_key: id}",
    )
    run = bench.run(text)
    rows = {node["name"]: (node["rows_in"], node["rows_out"]) for node in observed(run).topology()["nodes"]}
    assert rows == {"numbers": (100, 100), "high": (100, 60), "hole": (60, 60)}


def test_epochs_show_positions_and_acknowledgements(bench):
    with running(bench) as (_, shown):
        eventually(lambda: any(epoch["positions"].get("numbers") == {"numbers": 100} for epoch in shown.epochs(50)))
        epoch = next(epoch for epoch in shown.epochs(50) if epoch["status"] == "complete")
        assert epoch["markers"].keys() == {"numbers"}
        assert epoch["acks"].keys() == {"out"}
        assert epoch["waiting_for"] == []
        assert len(shown.epochs(1)) == 1


def test_a_paused_pipeline_delivers_nothing_and_still_checkpoints(bench):
    text = TEXT.replace("rows: 100", "rows: 1000000").replace("batch: 10", "batch: 10, pause: 0.01")
    with running(bench, text) as (run, shown):
        eventually(lambda: bench.ids("out"))
        shown.pause()
        assert shown.state == "paused"
        assert run.checkpoint(30)
        before = run.status().rows_in
        assert run.checkpoint(30)
        assert run.checkpoint(30)
        assert run.status().rows_in == before
        shown.resume()
        eventually(lambda: (run.status().rows_in or 0) > (before or 0))
        assert shown.state == "running"


def test_a_checkpoint_on_request(bench):
    with running(bench, checkpoint_interval_sec=3600) as (run, shown):
        eventually(lambda: (run.status().rows_in or 0) == 100)
        assert run.epoch is None
        assert not shown.is_ready
        shown.checkpoint()
        eventually(lambda: run.epoch == 1)
        assert shown.is_ready
        assert len(bench.ids("out")) == 60


def test_a_failure_is_shown_with_its_node(bench):
    text = TEXT.replace("from: high}", "from: high, fail_at: 50}")
    run = bench.start(text)
    shown = observed(run)
    with pytest.raises(StreamlingError):
        finish(run)
    error = shown.error()
    assert error is not None
    assert error["node"] == "out"
    assert "row 50 refused" in error["message"]
    assert error["retriable"] is False
    topology = shown.topology()
    assert topology["state"] == "failed"
    assert {node["name"]: node["status"] for node in topology["nodes"]}["out"] == "failed"


def test_a_run_that_has_ended_is_finished(bench):
    run = bench.run(TEXT.replace("ends: false", "ends: true"))
    topology = observed(run).topology()
    assert topology["state"] == "finished"
    assert {node["status"] for node in topology["nodes"]} == {"finished"}


def test_rows_of_nodes_can_be_watched_wherever_they_are(bench):
    text = pipeline(
        sql("high", "SELECT id, name FROM numbers WHERE id % 10 >= 4"),
        "hole: {type: blackhole, from: high}",
        "numbers: {type: numbers, rows: 1000000, batch: 10, pause: 0.05, primary_key: id}",
    )
    with running(bench, text) as (run, _), run.observer.live_rows.listening(["numbers", "high"]) as listener:
        seen: dict[str, list] = {}

        def both() -> bool:
            seen.update({name: rows.to_pylist() for name, rows in listener.take().items()})
            return len(seen) == 2

        eventually(both, 60)
        assert all(row["id"] % 10 >= 4 for row in seen["high"])
        assert set(seen["numbers"][0]) == {"id", "name", "_gs_op"}


def test_a_topology_of_a_hundred_nodes_is_small(bench):
    transforms = "\n".join(sql(f"t{i}", f"SELECT * FROM {f't{i - 1}' if i else 'numbers'}") for i in range(98))
    text = pipeline(transforms, "out: {type: blackhole, from: t97}")
    run = bench.prepare(text)
    assert len(json.dumps(observed(run).topology())) < 200_000
