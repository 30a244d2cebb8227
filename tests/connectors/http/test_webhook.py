"""The webhook sink against a real HTTP server, in real pipelines of the engine."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.http.webhook import WebhookSink
from streamling.connectors.memory import collected_rows
from streamling.dev.contracts.contract import sample_rows
from streamling.dev.contracts.harness import NAME, TYPE
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.testing import PipelineHarness, SinkContract
from tests.harness.endpoint import Endpoint, Reply, Request, endpoint
from tests.harness.pipelines import eventually, finish, start_run


def bench(server: Endpoint, **options: Any) -> PipelineHarness:
    return PipelineHarness(WebhookSink, {"url": server.url, **options})


def batches(*counts: int) -> list[pa.RecordBatch]:
    starts = [sum(counts[:n]) for n in range(len(counts))]
    return [sample_rows(start, count) for start, count in zip(starts, counts, strict=True)]


def ids(server: Endpoint) -> list[int]:
    return sorted(row["id"] for row in server.rows)


class TestContract(SinkContract):
    operator = WebhookSink

    @pytest.fixture(autouse=True)
    def _server(self):
        with endpoint() as self.server:
            yield

    def options(self) -> Mapping[str, Any]:
        return {"url": self.server.url}

    def durable(self) -> list[Mapping[str, Any]]:
        return self.server.rows


@pytest.mark.parametrize("count", [100, 500])
def test_every_row_arrives(count):
    with endpoint() as server:
        bench(server, batch_size=30).finish(batches(*[count // 10] * 10))
    assert ids(server) == list(range(count))
    assert max(len(request.rows) for request in server.requests) == 30


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, b'[{"id":0,"name":"n0","_gs_op":"i"},\n{"id":1,"name":"n1","_gs_op":"i"}]\n'),
        (
            {"payload_version": 1},
            b'[{"metadata":{"op":"i"},"data":{"id":0,"name":"n0","_gs_op":"i"}},\n'
            b'{"metadata":{"op":"i"},"data":{"id":1,"name":"n1","_gs_op":"i"}}]\n',
        ),
        ({"one_row_per_request": True}, b'{"id":0,"name":"n0","_gs_op":"i"}'),
        (
            {"one_row_per_request": True, "payload_version": 1},
            b'{"metadata":{"op":"i"},"data":{"id":0,"name":"n0","_gs_op":"i"}}',
        ),
    ],
)
def test_each_payload_format(options, text):
    with endpoint() as server:
        bench(server, **options).finish(batches(2))
    assert min(request.text for request in server.requests) == text
    assert len(server.requests) == (2 if "one_row_per_request" in options else 1)


def test_many_requests_are_in_flight_but_no_more_than_configured():
    with endpoint(lambda request: Reply(seconds=0.02)) as server:
        made = bench(server, one_row_per_request=True)
        made.config = {"external_http_handler": {"buffer_size": 7}}
        made.finish(batches(50))
    assert server.most_at_once == 7
    assert ids(server) == list(range(50))


def test_operations_on_one_key_arrive_in_their_order():
    chance = random.Random(3)
    print("seed 3")
    kinds = ["i", "u", "d"]
    history = [(chance.randrange(8), chance.choice(kinds), n) for n in range(200)]
    given = pa.record_batch(
        {
            "id": pa.array([id for id, _, _ in history], pa.int64()),
            "n": pa.array([n for _, _, n in history], pa.int64()),
            "_gs_op": [kind for _, kind, _ in history],
        }
    )
    with endpoint(lambda request: Reply(seconds=random.random() / 100)) as server:
        bench(server, one_row_per_request=True, primary_key="id").finish([given])
    seen = defaultdict(list)
    for row in server.rows:
        seen[row["id"]].append(row["n"])
    assert sum(map(len, seen.values())) == 200
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert server.most_at_once > 1


def test_an_acknowledgement_waits_for_all_responses():
    hold = threading.Event()

    def late(request: Request) -> Reply:
        if any(row["id"] == 0 for row in request.rows):
            hold.wait(30)
        return Reply()

    with endpoint(late) as server:
        made = bench(server)
        run = made.start(batches(1, 1, 1), interval=0.01)
        eventually(lambda: len(server.accepted) == 2, 60, "two are answered")
        assert not made.position
        hold.set()
        finish(run)
    assert made.position == {"given": 3}


@pytest.mark.parametrize("one_row_per_request", [True, False])
def test_rows_count_as_delivered_when_their_request_is_answered(one_row_per_request):
    hold = threading.Event()

    def late(request: Request) -> Reply:
        if request.rows[-1]["id"] >= 4:
            hold.wait(30)
        return Reply()

    with endpoint(late) as server:
        run = bench(server, one_row_per_request=one_row_per_request, batch_size=2).start(batches(6))
        eventually(lambda: run.rows_written() == {NAME: 4}, 60, "four are answered")
        assert run.metrics.value("output_rows", NAME) == 4
        hold.set()
        finish(run)
    assert run.rows_written() == {NAME: 6}


def test_rows_that_no_endpoint_has_taken_are_not_delivered():
    with endpoint() as server:
        url = server.url
    made = PipelineHarness(WebhookSink, {"url": url})
    made.config = {"startup_timeout_sec": 0.2}
    made.failure(batches(12))
    assert made.run.rows_written() == {}
    assert made.run.summary() == f"0 to {NAME}"


# ── trouble ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("trouble", [Reply(500), Reply(429), Reply(408), Reply(drop=True)])
def test_transient_errors_are_retried(trouble):
    left = [trouble] * 3
    with endpoint(lambda request: left.pop() if left else Reply()) as server:
        bench(server).finish(batches(3))
    assert ids(server) == [0, 1, 2]
    assert len(server.requests) == 4


def test_another_client_error_stops_the_pipeline_and_stores_nothing():
    with endpoint(lambda request: Reply(422, b'{"error": "no such event"}')) as server:
        made = bench(server)
        error = made.failure(batches(3, 3))
    assert "returned 422" in str(error)
    assert "no such event" in str(error)
    assert not made.position


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_with_skip_on_error_rows_with_an_error_response_are_skipped_and_counted(status, caplog):
    def picky(request: Request) -> Reply:
        return Reply(status if request.json["id"] % 2 else 200)

    with endpoint(picky) as server:
        made = bench(server, one_row_per_request=True, skip_on_error=True)
        made.finish(batches(10))
    assert ids(server) == [0, 2, 4, 6, 8]
    assert len(server.requests) == 10
    assert made.position == {"given": 1}
    (line,) = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert line.startswith("skipped 5 rows")
    assert f"returned {status}" in line
    assert made.run.rows_written() == {NAME: 5}
    assert made.run.metrics.value("skipped_rows", NAME) == 5


def test_skip_on_error_does_not_skip_requests_without_a_response():
    left = [Reply(drop=True)] * 3
    with endpoint(lambda request: left.pop() if left else Reply()) as server:
        bench(server, skip_on_error=True).finish(batches(4))
    assert ids(server) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_under_random_failures_and_stops_no_row_is_lost(seed):
    chance = random.Random(seed)
    lock = threading.Lock()

    def flaky(request: Request) -> Reply:
        with lock:
            luck, seconds = chance.random(), chance.random() / 100
        troubles = [Reply(500), Reply(429), Reply(drop=True)]
        return troubles[int(luck * 15)] if luck < 0.2 else Reply(seconds=seconds)

    counts = [chance.randint(1, 12) for _ in range(chance.randint(3, 12))]
    stop_at = chance.randrange(len(counts))
    options = {"one_row_per_request": chance.random() < 0.5, "parallelism": chance.randint(1, 3)}
    print(f"seed {seed}: {counts} {options}, stop at batch {stop_at}")
    with endpoint(flaky) as server:
        made = bench(server, primary_key="id", **options)
        made.on_read = lambda number: made.stop() if number == stop_at else None
        with suppress(StreamlingError):  # a request that failed four times in a row while the pipeline stops
            made.finish(batches(*counts), interval=0.02)
        made.on_read = lambda number: None
        made.finish(batches(*counts), interval=0.02)
    assert sorted({row["id"] for row in server.rows}) == list(range(sum(counts)))
    assert made.position == {"given": len(counts)}


def test_two_sinks_fail_together_when_one_does(tmp_path):
    """One failing sink of several stops the pipeline, and nothing is stored."""
    with endpoint() as good, endpoint(lambda request: Reply(404)) as bad:
        made = bench(good)
        registry = made.registry(batches(5, 5))
        sinks = {
            name: {"type": "webhook", "from": "given", "url": server.url}
            for name, server in {"good": good, "bad": bad}.items()
        }
        sections = {"sources": {"given": {"type": "contract.given"}}, "transforms": {}, "sinks": sinks}
        state = MemoryState()
        run = start_run(json.dumps(sections), registry, state=state)
        with pytest.raises(StreamlingError, match="webhook sink 'bad'"):
            finish(run)
    assert not state.items()


# ── dead letters ─────────────────────────────────────────────────────────────────────────────────────────────


def start_with_dead_letters(server: Endpoint, given: list[pa.RecordBatch], **options: Any) -> PipelineRun:
    """Start a webhook with a dead-letter sink that stays in memory."""
    made = bench(server)
    registry = made.registry(given)
    webhook = {
        "type": TYPE,
        "from": "given",
        "primary_key": "id",
        "url": server.url,
        "errors": {"to": "bad"},
        **options,
    }
    sections = {
        "sources": {"given": {"type": "contract.given"}},
        "transforms": {},
        "sinks": {NAME: webhook, "bad": {"type": "memory"}},
    }
    config = AppConfig(checkpoint_interval_sec=0.05)
    return start_run(json.dumps(sections), registry, config=config, state=made.state)


def with_dead_letters(
    server: Endpoint, given: list[pa.RecordBatch], **options: Any
) -> tuple[Any, list[dict[str, Any]]]:
    """Run rows to the end; returns the run and the dead letters."""
    run = start_with_dead_letters(server, given, **options)
    finish(run)
    return run, collected_rows(run, "bad").to_pylist()


def test_with_dead_letters_rows_are_counted_while_others_of_their_batch_are_sent():
    hold = threading.Event()

    def late(request: Request) -> Reply:
        if request.json["id"] >= 4:
            hold.wait(30)
        return Reply()

    with endpoint(late) as server:
        run = start_with_dead_letters(server, batches(6), one_row_per_request=True)
        eventually(lambda: run.rows_written() == {NAME: 4}, 60, "four are answered")
        hold.set()
        finish(run)
    assert run.rows_written() == {NAME: 6}


@pytest.mark.parametrize("status", [400, 404, 409, 410, 413, 422])
def test_refused_rows_with_a_request_each_are_dead_letters(status):
    def picky(request: Request) -> Reply:
        return Reply(status, b'{"error": "odd"}') if request.json["id"] % 2 else Reply()

    with endpoint(picky) as server:
        run, letters = with_dead_letters(server, batches(5, 5), one_row_per_request=True)
    assert ids(server) == [0, 2, 4, 6, 8]
    assert len(server.requests) == 10
    assert sorted(letter["position"] for letter in letters) == [f"id={n}" for n in range(1, 10, 2)]
    assert all(f"returned {status}" in letter["error"] and "odd" in letter["error"] for letter in letters)
    assert run.rows_written() == {NAME: 5, "bad": 5}
    assert run.metrics.value("rejected_rows", NAME) == 5


def test_all_rows_of_a_refused_batch_are_dead_letters():
    with endpoint(lambda request: Reply(422 if request.rows[0]["id"] == 3 else 200)) as server:
        run, letters = with_dead_letters(server, batches(3, 3, 3), batch_size=3)
    assert len(server.requests) == 3, "a batch is refused as a whole and not sent again in parts"
    assert ids(server) == [0, 1, 2, 6, 7, 8]
    assert [letter["position"] for letter in letters] == ["id=3", "id=4", "id=5"]
    assert run.rows_written() == {NAME: 6, "bad": 3}


def test_the_error_of_a_dead_letter_quotes_a_bounded_part_of_the_response_without_secrets():
    def leak(request: Request) -> Reply:
        return Reply(400, f"bad {request.headers['X-Key']} {'x' * 5000}".encode())

    with endpoint(leak) as server:
        _, letters = with_dead_letters(server, batches(1), headers={"X-Key": "s3cr3t-value"})
    assert "s3cr3t-value" not in str(letters)
    assert "returned 400" in letters[0]["error"]
    assert len(letters[0]["error"]) < 500


@pytest.mark.parametrize("status", [408, 425, 429, 503])
def test_with_dead_letters_transient_errors_are_still_retried(status):
    left = [Reply(status)] * 2
    with endpoint(lambda request: left.pop() if left else Reply()) as server:
        run, letters = with_dead_letters(server, batches(2))
    assert letters == []
    assert run.rows_written() == {NAME: 2}


@pytest.mark.parametrize("status", [401, 403, 407])
def test_wrong_credentials_stop_the_pipeline_also_with_dead_letters(status):
    with endpoint(lambda request: Reply(status)) as server, pytest.raises(StreamlingError, match=f"returned {status}"):
        with_dead_letters(server, batches(2))


def test_skip_on_error_and_dead_letters_exclude_each_other():
    with endpoint() as server, pytest.raises(StreamlingError, match="drops the rows that `errors` would keep"):
        with_dead_letters(server, batches(1), skip_on_error=True)
