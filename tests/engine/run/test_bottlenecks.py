"""A slow node is found: its topology entry is busy, nodes before it are blocked by it, nodes after it wait for rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.engine.dataflow.test_sql_flows import pipeline, sql
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.pipelines import Bench, eventually, finish

from streamling.engine.run.observed import ObservedRun
from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError

pytestmark = pytest.mark.spark

ENDLESS = "numbers: {type: numbers, rows: 1000000, batch: 10, primary_key: id}"


@contextmanager
def running(bench: Bench, text: str, **settings: Any) -> Iterator[PipelineRun]:
    run = bench.start(text, checkpoint_interval_sec=60, **settings)
    try:
        yield run
    finally:
        run.stop("the test is over", True)
        finish(run)


def observed(run: PipelineRun) -> ObservedRun:
    return ObservedRun(run, name="p", application_id="p", jvm_megabytes=lambda: None)


def nodes(shown: ObservedRun) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in shown.topology()["nodes"]}


def blocked_ms(run: PipelineRun, node: str, downstream: str) -> float:
    tags = {"state": "blocked", "downstream_id": downstream, "execution_kind": kind_of(run, node)}
    run.metrics.snapshot()
    return run.metrics.value("node_wait", node, **tags) or 0.0  # type: ignore[return-value]


def starved_ms(run: PipelineRun, node: str) -> float:
    run.metrics.snapshot()
    tags = {"state": "starved", "downstream_id": "", "execution_kind": kind_of(run, node)}
    return run.metrics.value("node_wait", node, **tags) or 0.0  # type: ignore[return-value]


def kind_of(run: PipelineRun, node: str) -> str:
    return "plugin" if run.pipeline[node].type in ("numbers", "double", "ledger") else "native"


def test_a_slow_sink(bench):
    text = pipeline(
        sql("high", "SELECT * FROM numbers WHERE id >= 0"), "out: {type: ledger, from: high, delay: 2.0}", ENDLESS
    )
    with running(bench, text) as run:
        shown = observed(run)
        eventually(lambda: blocked_ms(run, "high", "out") > 2000, 60)
        eventually(lambda: nodes(shown)["out"]["busy"] > 0.7, 60)
        found = nodes(shown)
        assert found["out"]["status"] == "ok"
        assert found["out"]["queue"] == {"length": 2, "capacity": 2}
        for name, downstream in (("high", "out"), ("numbers", "high")):
            assert (found[name]["status"], found[name]["status_reason"]) == ("blocked", f"waits for '{downstream}'")
        assert blocked_ms(run, "numbers", "high") > 1500
        assert run.metrics.value("node_backpressure_events", "high", execution_kind="native")


def test_a_slow_transform(bench):
    text = pipeline("slow: {type: double, from: numbers, delay: 1.0}", "out: {type: ledger, from: slow}", ENDLESS)
    with running(bench, text) as run:
        shown = observed(run)
        eventually(lambda: blocked_ms(run, "numbers", "slow") > 2000, 60)
        eventually(lambda: starved_ms(run, "out") > 2000, 60)
        eventually(lambda: nodes(shown)["slow"]["busy"] > 0.7, 60)
        found = nodes(shown)
        assert (found["numbers"]["status"], found["numbers"]["status_reason"]) == ("blocked", "waits for 'slow'")
        assert (found["out"]["status"], found["out"]["status_reason"]) == ("starved", "waits for rows of 'slow'")
        assert blocked_ms(run, "slow", "out") == 0


def test_a_slow_source(bench):
    slow = "numbers: {type: numbers, rows: 1000000, batch: 10, primary_key: id, pause: 0.5}"
    text = pipeline("twice: {type: double, from: numbers}", "out: {type: ledger, from: twice}", slow)
    with running(bench, text) as run:
        shown = observed(run)
        eventually(lambda: starved_ms(run, "out") > 2000, 60)
        eventually(lambda: nodes(shown)["numbers"]["busy"] > 0.7, 60)
        found = nodes(shown)
        assert {found[name]["status"] for name in ("twice", "out")} == {"starved"}
        assert blocked_ms(run, "numbers", "twice") == blocked_ms(run, "twice", "out") == 0


def test_a_slow_and_a_fast_consumer_of_one_node(bench):
    """Scan sharing: the wait is attributed to the slow consumer."""
    sinks = "slow: {type: ledger, from: numbers, delay: 0.3}\nfast: {type: ledger, from: numbers}"
    with running(bench, pipeline("", sinks, ENDLESS)) as run:
        eventually(lambda: blocked_ms(run, "numbers", "slow") > 1500, 60)
        assert blocked_ms(run, "numbers", "fast") < 100
        assert starved_ms(run, "fast") > 1000
        found = nodes(observed(run))
        assert found["numbers"]["status_reason"] == "waits for 'slow'"
        assert found["fast"]["status"] == "starved"


def test_a_webhook_behind_a_rebatcher(bench):
    """A linear pipeline: the edge to the webhook is the one that waits."""

    def answer(request: Request) -> Reply:
        time.sleep(0.3)
        return Reply()

    with endpoint(answer) as server:
        sink = f"hook: {{type: webhook, from: twice, url: 'http://127.0.0.1:{server.port}/', batch_size: 5}}"
        text = pipeline("twice: {type: double, from: numbers}", sink, ENDLESS)
        with running(bench, text, external_http_handler={"buffer_size": 1}) as run:
            eventually(lambda: blocked_ms(run, "twice", "hook") > 1000, 60)
            eventually(lambda: blocked_ms(run, "numbers", "twice") > 500, 60)


def test_a_plugin_that_is_still_busy_at_the_end_is_counted(bench):
    text = pipeline("", "out: {type: ledger, from: numbers, delay: 4.0}", ENDLESS)
    run = bench.start(text, shutdown_budget_secs=1.0, drain_policy="fast")
    eventually(lambda: (run.metrics.value("input_rows", "out") or 0) > 0, 60)
    run.stop("enough", True)
    with pytest.raises(StreamlingError, match="still busy after shutdown_budget_secs"):
        finish(run)
    assert run.metrics.value("shutdown_unflushed_plugin_dispatchers") == 1
