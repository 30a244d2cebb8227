"""The admin API of a real run."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamling.engine.run.run import PipelineRun
from tests.engine.dataflow.test_sql_flows import pipeline, sql
from tests.harness.pipelines import Bench, eventually, finish
from tests.serve.admin.serving import Api, serving

pytestmark = pytest.mark.spark

TEXT = pipeline(
    sql("high", "SELECT id, name FROM numbers WHERE id % 10 >= 4"),
    "out: {type: ledger, from: high}",
    "numbers: {type: numbers, rows: 100000000, batch: 10, pause: 0.02, ends: false, primary_key: id}",
)


@pytest.fixture(scope="module")
def served(spark) -> Iterator[tuple[PipelineRun, Api]]:
    bench = Bench(spark)
    run = bench.start(TEXT)
    try:
        with serving(run) as api:
            eventually(lambda: bench.ids("out"), 60)
            yield run, api
    finally:
        run.stop("the test is over", True)
        finish(run)


def test_probes(served):
    _, api = served
    assert api.ask("/healthz") == (200, {"status": "ok"})
    eventually(lambda: api.ask("/readyz") == (200, {"status": "running"}))


def test_metrics_are_valid_prometheus_text(served):
    _, api = served
    status, text = api.ask("/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = families["streamling_output_rows"].samples
    rows = {sample.labels["id"]: sample.value for sample in samples}
    assert rows["out"] > 0
    assert {sample.labels["service_instance_id"] for sample in samples}
    waits = families["streamling_node_wait_milliseconds"]
    assert waits.type == "counter"
    assert {sample.labels["state"] for sample in waits.samples} >= {"starved"}
    assert families["streamling_checkpoint_epoch_duration_milliseconds"].type == "histogram"


def test_topology_and_epochs(served):
    _, api = served
    status, topology = api.ask("/admin/topology")
    assert status == 200
    assert [node["name"] for node in topology["nodes"]] == ["numbers", "high", "out"]
    eventually(lambda: len(api.ask("/admin/epochs?limit=2")[1]) == 2)
    eventually(lambda: len(api.ask("/admin/epochs")[1]) > 2)


def test_the_history_of_a_run_and_of_its_nodes(served):
    _, api = served
    for query, length in (("", 360), ("?minutes=5", 30), ("?minutes=5&node=high", 30)):
        status, history = api.ask(f"/admin/history{query}")
        assert (status, history["interval_s"], len(history["rate_in"]), len(history["lag"])) == (
            200,
            10.0,
            length,
            length,
        )
    assert api.ask("/admin/history?minutes=0")[0] == 400


def test_events_of_the_topology(served):
    _, api = served
    with api.open("/admin/topology/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [response.readline().decode() for _ in range(5)]
    assert lines[0] == lines[3] == "event: topology\n"
    first, second = (json.loads(line.removeprefix("data: ")) for line in (lines[1], lines[4]))
    assert "schema" not in first["nodes"][0]
    assert second["nodes"][0]["rows_out"] > first["nodes"][0]["rows_out"]


def test_live_data_has_the_format_of_the_original(served):
    _, api = served
    rows = api.rows("topology_node_keys=numbers,high", 20)
    assert {row["topology_node_key"] for row in rows} <= {"numbers", "high"}
    (first, *_) = rows
    assert first.keys() == {"topology_node_key", "data"}
    assert first["data"].keys() == {"id", "name", "_gs_op"}


def test_live_data_can_be_filtered(served):
    _, api = served
    rows = api.rows("topology_node_keys=high&filter=name%20like%20%27%255%27&per_second=100", 5)
    assert all(row["data"]["name"].endswith("5") for row in rows)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "'topology_node_keys' is missing"),
        ("topology_node_keys=nothing", "there is no node 'nothing'"),
        ("topology_node_keys=out", "'out' has no output"),
        ("topology_node_keys=high&filter=id%20%3E", "the filter cannot be read"),
        ("topology_node_keys=high&kinds=x", "'x' is not a row kind"),
        ("topology_node_keys=high&per_second=0", "not between 0 and 1000"),
    ],
)
def test_a_wrong_request_for_live_data_is_one_sentence(served, query, message):
    _, api = served
    status, answer = api.ask(f"/admin/live-data?{query}")
    assert status == 400
    assert message in answer["error"]["message"]


def test_a_number_that_is_none_is_refused(served):
    _, api = served
    assert api.ask("/admin/epochs?limit=x")[0] == 400


def test_no_error_and_no_dead_letters(served):
    _, api = served
    assert api.ask("/admin/error") == (204, "")
    assert api.ask("/admin/dead-letters") == (200, [])


def test_pause_resume_and_checkpoint(served):
    run, api = served
    assert api.ask("/admin/pause", "POST") == (202, {"accepted": "pause"})
    assert api.ask("/admin/topology")[1]["state"] == "paused"
    assert api.ask("/admin/resume", "POST")[0] == 202
    assert api.ask("/admin/topology")[1]["state"] == "running"
    before = run.epoch or 0
    assert api.ask("/admin/checkpoint", "POST")[0] == 202
    eventually(lambda: (run.epoch or 0) > before)


@pytest.mark.parametrize("path", ["/admin/pause", "/admin/checkpoint"])
def test_commands_need_post(served, path):
    _, api = served
    assert api.ask(path)[0] == 405


def test_ten_clients_and_one_that_stops_reading_do_not_slow_the_pipeline_down(served):
    """The client that does not read has a small buffer, which is full after a moment."""
    run, api = served
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    stuck.connect(("127.0.0.1", api.port))
    stuck.sendall(
        b"GET /admin/live-data?topology_node_keys=numbers,high&per_second=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    clients = [
        threading.Thread(target=api.rows, args=("topology_node_keys=numbers,high&per_second=1000", 200))
        for _ in range(10)
    ]
    before = run.status().rows_out
    for client in clients:
        client.start()
    for client in clients:
        client.join(60)
    assert not any(client.is_alive() for client in clients)
    written = run.status().rows_out
    assert written > before
    eventually(lambda: run.status().rows_out > written + 100)
    for name in ("numbers", "high"):
        rows = run.observer.live_rows.of(name)
        assert rows is not None
        assert all(listener.waiting_batches <= 2 for listener in rows.listeners)
    stuck.close()
    eventually(lambda: not run.observer.live_rows.of("high").listeners, 30)


def test_the_end_of_a_pipeline_ends_its_events(spark):
    bench = Bench(spark)
    run = bench.start(TEXT)
    with (
        serving(run) as api,
        api.open("/admin/live-data?topology_node_keys=numbers") as response,
        api.open("/admin/topology/events") as events,
    ):
        run.stop("enough", True)
        finish(run)
        assert response.read().decode().endswith('event: end\ndata: {"reason": "the pipeline has ended"}\n\n')
        assert events.read().decode().endswith('event: end\ndata: {"reason": "the pipeline has ended"}\n\n')
        assert api.ask("/readyz")[0] == 503
