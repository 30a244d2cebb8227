"""The handler transform against a real HTTP server, in real pipelines of the engine."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.http.handler import HandlerTransform
from streamling.connectors.memory import collected_rows
from streamling.dev.contracts.contract import sample_rows
from streamling.dev.contracts.harness import NoSpark
from streamling.engine.run.run import PipelineRun
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.redaction import add_secrets
from streamling.testing import PipelineHarness, TransformContract
from streamling.types.names import TYPE_KEY
from streamling.types.wide.layout import WideInteger, from_integers, layout_of
from tests.fuzz.encodings import ENCODINGS
from tests.harness.endpoint import Endpoint, Reply, Request, echo, endpoint
from tests.harness.pipelines import Bench, eventually, finish


def updated(request: Request) -> Reply:
    """Adds a prefix to every name; works for all payload formats."""

    def change(row: dict[str, Any]) -> dict[str, Any]:
        data = row.get("data", row)
        data["name"] = f"updated-{data['name']}"
        return row

    body = request.json
    return Reply.of([change(row) for row in body] if isinstance(body, list) else change(body))


def bench(server: Endpoint, **options: Any) -> PipelineHarness:
    return PipelineHarness(HandlerTransform, {"url": server.url, "primary_key": "id", **options})


def batches(*counts: int) -> list[pa.RecordBatch]:
    starts = [sum(counts[:n]) for n in range(len(counts))]
    return [sample_rows(start, count) for start, count in zip(starts, counts, strict=True)]


def names(made: PipelineHarness) -> list[str]:
    return [row["name"] for row in made.written_rows]


class TestContract(TransformContract):
    operator = HandlerTransform

    @pytest.fixture(autouse=True)
    def _server(self):
        with endpoint(updated) as self.server:
            yield

    def options(self) -> Mapping[str, Any]:
        return {"url": self.server.url, "primary_key": "id"}

    def expected(self) -> list[Mapping[str, Any]]:
        return [{**row, "name": f"updated-{row['name']}"} for row in self.input().to_pylist()]

    def external_state(self) -> object:
        return len(self.server.requests)


# ── payloads ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("one_row", "requests"), [(True, 10), (False, 1)])
def test_rows_are_sent_and_responses_read_in_each_payload_format(version, one_row, requests):
    with endpoint(updated) as server:
        made = bench(server, payload_version=version, one_row_per_request=one_row)
        made.finish(batches(10))
    assert names(made) == [f"updated-n{n}" for n in range(10)]
    assert len(server.requests) == requests
    row = {"id": 0, "name": "n0", "_gs_op": "i"}
    first = sorted(server.requests, key=lambda request: request.text)[0].rows[0]
    assert first == (row if version == 0 else {"metadata": {"op": "i"}, "data": row})


def test_twenty_rows_with_a_batch_size_of_five_become_four_requests():
    with endpoint(updated) as server:
        made = bench(server, batch_size=5, batch_flush_interval="10s")
        made.finish(batches(20))
    assert [len(request.rows) for request in server.requests] == [5, 5, 5, 5]
    assert names(made) == [f"updated-n{n}" for n in range(20)]


def test_a_request_is_a_json_post_with_the_headers_of_the_node_and_its_secret(monkeypatch):
    with endpoint(echo) as server:
        made = bench(server, headers={"X-Team": "blue"}, secret_name="My key")
        made.config = {"http_secret_header": {"my_key": "X-Key"}, "http_secret_value": {"my_key": "hunter2"}}
        made.finish(batches(1))
    (request,) = server.requests
    assert request.path == "/rows"
    assert request.headers["Content-Type"] == "application/json"
    assert (request.headers["X-Team"], request.headers["X-Key"]) == ("blue", "hunter2")
    assert request.text == b'[{"id":0,"name":"n0","_gs_op":"i"}]\n'


def test_a_content_type_of_the_node_replaces_the_default():
    with endpoint(echo) as server:
        bench(server, headers={"content-type": "application/vnd.rows+json"}).finish(batches(1))
    assert [value for name, value in server.requests[0].headers.items() if name.lower() == "content-type"] == [
        "application/vnd.rows+json"
    ]


def test_a_secret_that_is_not_configured_names_the_variable_to_set():
    with endpoint(echo) as server:
        error = bench(server, secret_name="My key").failure(batches(1))
    assert "'under_test'" in str(error)
    assert "(environment: STREAMLING__HTTP_SECRET_HEADER__MY_KEY" in str(error)
    assert not server.requests


def test_requests_hold_no_more_rows_and_bytes_than_allowed():
    with endpoint(echo) as server:
        made = bench(server)
        made.config = {"external_http_handler": {"trigger_max_count": 4, "max_request_bytes": 120}}
        made.finish(batches(10))
    assert sorted(len(request.rows) for request in server.requests) == [1, 3, 3, 3]
    assert len(made.written_rows) == 10


def test_a_row_beyond_the_limit_of_a_request_is_an_error():
    with endpoint(echo) as server:
        made = bench(server)
        made.config = {"external_http_handler": {"max_request_bytes": 20}}
        error = made.failure(batches(1))
    assert "a row takes 33 bytes as JSON, but a request is limited to 20" in str(error)
    assert not error.retriable


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────


def answering(value: Any, **options: Any) -> PipelineHarness:
    """Return a bench that has run one row against an endpoint that returns ``value``."""
    with endpoint(lambda request: Reply(text=value if isinstance(value, bytes) else json.dumps(value).encode())) as at:
        made = bench(at, **options)
        made.finish(batches(2))
    return made


@pytest.mark.parametrize("nothing", [b"", b"[]", b"null", b"[null]", b" \n"])
def test_a_response_without_rows_drops_them(nothing):
    assert answering(nothing).written_rows == []


def test_a_response_may_have_more_rows_than_the_request():
    rows = [{"id": n, "name": "x"} for n in range(5)]
    assert [row["id"] for row in answering(rows).written_rows] == [0, 1, 2, 3, 4]


def test_one_row_may_become_several():
    def twice(request: Request) -> Reply:
        return Reply.of([request.json, {**request.json, "name": "again"}])

    with endpoint(twice) as server:
        made = bench(server, one_row_per_request=True)
        made.finish(batches(2))
    assert names(made) == ["n0", "again", "n1", "again"]


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        (0, [{"id": 0, "name": "a", "_gs_op": "d"}, {"id": 1, "name": "b", "_gs_op": "u"}]),
        (1, [{"metadata": {"op": "d"}, "data": {"id": 0}}, {"metadata": {"op": "u"}, "data": {"id": 1}}]),
        (1, [{"data": {"id": 0, "_gs_op": "d"}}, {"data": {"id": 1, "_gs_op": "u"}}]),
        (1, [{"metadata": {"op": "i"}, "data": {"id": n, "_gs_op": op}} for n, op in enumerate("du")]),
    ],
)
def test_the_response_decides_the_row_kind(version, answer):
    assert [row["_gs_op"] for row in answering(answer, payload_version=version).written_rows] == ["d", "u"]


def test_the_row_kind_is_kept_if_the_response_has_none():
    given = pa.record_batch({"id": pa.array([1, 2, 3]), "_gs_op": ["i", "u", "d"]})
    with endpoint(lambda request: Reply.of([{"id": row["id"]} for row in request.json])) as server:
        made = bench(server)
        made.finish([given])
    assert [row["_gs_op"] for row in made.written_rows] == ["i", "u", "d"]


def failing(answer: Any, given: pa.RecordBatch | None = None, **options: Any) -> StreamlingError:
    text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with endpoint(lambda request: Reply(text=text)) as server:
        error = bench(server, **options).failure([given or sample_rows(0, 2)])
    assert "handler" in str(error) or "'under_test'" in str(error)
    assert not error.retriable
    assert not error.internal
    assert error.remedy
    return error


@pytest.mark.parametrize(
    ("answer", "version", "expected"),
    [
        (b"<html>", 0, "is not valid JSON"),
        (b'[{"id": NaN}]', 0, "is not valid JSON"),
        (b"[" * 100_000, 0, "is not valid JSON"),
        ([1], 0, "has a number where row 1 should be an object"),
        ([[]], 0, "has an array where row 1 should be an object"),
        ([{"id": 1}], 1, "has no object 'data' in row 1"),
        ([{"id": 1}, {"name": "x"}], 0, "lacks the key column 'id' in row 2"),
        ([{"id": 1, "_gs_op": "x"}], 0, "has the row kind 'x' in row 1"),
    ],
)
def test_a_response_in_another_format_is_an_error(answer, version, expected):
    assert expected in str(failing(answer, payload_version=version))


def test_an_unknown_row_kind_is_an_error():
    given = pa.record_batch({"id": pa.array([1, 2, 3]), "_gs_op": ["i", "u", "d"]})
    assert "row 1 has no '_gs_op'" in str(failing([{"id": 1}], given))


def test_a_value_of_another_type_names_column_value_and_type():
    error = failing([{"id": 1, "name": "a"}, {"id": 1.5, "name": "b"}])
    assert "returned 1.5 for column 'id' of row 2, expected int64" in str(error)


def test_a_response_over_the_size_limit_is_an_error():
    with endpoint(lambda request: Reply(text=b"[" + b" " * 5000 + b"]")) as server:
        made = bench(server)
        made.config = {"external_http_handler": {"max_response_bytes": 1000}}
        error = made.failure(batches(1))
    assert "returned more than 1000 bytes" in str(error)


def test_a_response_with_too_many_values_is_an_error():
    with endpoint(lambda request: Reply(text=b'[{"id":1}' + b',{"id":1}' * 300 + b"]")) as server:
        made = bench(server)
        made.config = {"external_http_handler": {"max_response_values": 900}}
        error = made.failure(batches(1))
    assert "response has more than 900 values" in str(error)
    assert "max_response_values" in (error.remedy or "")


def test_responses_with_many_rows_are_combined_in_order():
    def many(request: Request) -> Reply:
        return Reply.of([{"id": row["id"] * 9000 + n, "name": "x"} for row in request.rows for n in range(9000)])

    with endpoint(many) as server:
        made = bench(server, one_row_per_request=True)
        made.finish(batches(5))
    assert [row["id"] for row in made.written_rows] == list(range(45_000))


def test_schema_override_adds_removes_and_changes_columns(caplog):
    """Other columns in the response are reported once, unless `schema_override` removes them."""

    def answer(request: Request) -> Reply:
        rows = [{"id": str(row["id"]), "score": "12.50", "scroe": 1, "name": "x"} for row in request.json]
        return Reply.of(rows)

    with endpoint(answer) as server:
        made = bench(server, schema_override={"name": None, "id": "Utf8", "score": "decimal(10,2)"}, parallelism=2)
        made.finish(batches(2, 2))
    said = "the endpoint returns columns that are not part of the output (declare them in 'schema_override'): 'scroe'"
    assert caplog.messages.count(said) == 1
    assert "'name'" not in caplog.text
    assert made.schemas[0].names == ["id", "score", "_gs_op"]
    rows = [{"id": str(n), "score": Decimal("12.50"), "_gs_op": "i"} for n in range(4)]
    assert sorted(made.written_rows, key=lambda row: row["id"]) == rows


@pytest.mark.parametrize(
    ("override", "expected"),
    [({"nmae": None}, "removes 'nmae', but 'given' has no such column"), ({"_gs_op": "int8"}, "names '_gs_op'")],
)
def test_an_invalid_override_is_rejected_before_anything_runs(override, expected):
    with endpoint(echo) as server, pytest.raises(InvalidPipeline, match=expected):
        bench(server, schema_override=override).prepare(batches(1))
    assert not server.requests


def test_values_survive_a_round_trip_to_the_last_digit():
    given = pa.record_batch(
        {
            "id": pa.array([2**63 - 1, -(2**63)], pa.int64()),
            "unsigned": pa.array([2**64 - 1, None], pa.uint64()),
            "amount": pa.array([Decimal("12345678901234567890.123456789012345678"), None], pa.decimal128(38, 18)),
            "at": pa.array([datetime(2024, 5, 1, 12, 0, 0, 123456), None], pa.timestamp("us")),
            "utc": pa.array([datetime(1969, 12, 31, 23, 59, 59, 999999), None], pa.timestamp("us", "UTC")),
            "day": pa.array([date(1, 1, 1), date(9999, 12, 31)]),
            "real": pa.array([0.1 + 0.2, 5e-324]),
            "raw": pa.array([b"\x00\xff", b""]),
            "nested": pa.array([{"a": [1, None]}, None], pa.struct([("a", pa.list_(pa.int64()))])),
            "pairs": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
            "text": ["Grüße \u0000 \U0001f389", ""],
            "_gs_op": ["i", "u"],
        }
    )
    with endpoint(echo) as server:
        made = bench(server)
        made.finish([given])
    assert made.written_rows == given.to_pylist()
    assert made.schemas[0].types == given.schema.types


def test_wide_integers_are_numbers_with_all_their_digits():
    """As our own type, and as the bytes from Spark, whose type only the declared schema knows."""
    numbers, layout = [2**256 - 1, 0, None], layout_of(WideInteger("u256"))
    held = from_integers(numbers, layout)
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("own", WideInteger("u256")),
            pa.field("spark", held.type, metadata={TYPE_KEY: "u256"}),
        ]
    )
    own = pa.ExtensionArray.from_storage(WideInteger("u256"), held)
    typed = pa.record_batch([pa.array([1, 2, 3]), own, held], schema=schema)
    untyped = typed.replace_schema_metadata(None).cast(pa.schema([field.remove_metadata() for field in schema]))
    with endpoint(echo) as server:
        made = bench(server, one_row_per_request=True)
        made.finish([typed, untyped])
    assert sorted(
        {(request.json["id"], request.json["own"], request.json["spark"]) for request in server.requests}
    ) == [
        (1, 2**256 - 1, 2**256 - 1),
        (2, 0, 0),
        (3, None, None),
    ]
    assert [row["spark"] for row in made.written_rows] == held.to_pylist() * 2
    assert made.schemas[0].types[:3] == schema.types


def test_requests_and_responses_of_several_megabytes():
    given = pa.record_batch({"id": pa.array([1, 2]), "text": ["ä" * 1_500_000, "b" * 200_000]})
    with endpoint(echo) as server:
        made = bench(server)
        made.finish([given])
    assert [len(row["text"]) for row in made.written_rows] == [1_500_000, 200_000]
    assert len(server.requests) == 1


# ── many requests at once ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{"one_row_per_request": True}, {"batch_size": 2}])
def test_many_requests_are_in_flight_and_the_order_is_kept(options):
    chance = random.Random(5)

    def slowly(request: Request) -> Reply:
        return Reply(text=request.text, seconds=chance.random() / 20)

    with endpoint(slowly) as server:
        made = bench(server, **options)
        made.finish(batches(40, 40, 40))
    assert [row["id"] for row in made.written_rows] == list(range(120))
    assert 10 < server.most_at_once <= 25
    assert server.connections <= 25


def test_requests_of_several_batches_overlap():
    together = threading.Barrier(8, timeout=30)

    def meet(request: Request) -> Reply:
        together.wait()
        return echo(request)

    with endpoint(meet) as server:
        made = bench(server)
        made.finish(batches(*[3] * 8), interval=3600)
    assert [row["id"] for row in made.written_rows] == list(range(24))


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("counts", [(30,), (1,) * 20])
def test_no_more_requests_are_in_flight_than_configured(most, counts):
    with endpoint(lambda request: Reply(text=request.text, seconds=0.01)) as server:
        made = bench(server, one_row_per_request=True)
        made.config = {"external_http_handler": {"buffer_size": most}}
        made.finish(batches(*counts))
    assert server.most_at_once == most
    assert [row["id"] for row in made.written_rows] == list(range(sum(counts)))


def test_a_result_is_emitted_immediately_even_if_no_batch_follows():
    with endpoint(lambda request: Reply(text=request.text, seconds=0.05)) as server:
        made = bench(server)
        made.on_read = lambda number: eventually(lambda: len(made.received_rows) == number, 60, "the one before")
        made.finish(batches(1, 1, 1), interval=3600)
    assert len(made.written_rows) == 3


def test_a_position_is_stored_only_after_the_responses():
    hold = threading.Event()

    def late(request: Request) -> Reply:
        if any(row["id"] == 3 for row in request.rows):
            hold.wait(30)
        return echo(request)

    with endpoint(late) as server:
        made = bench(server)
        stored: list[tuple[int, bool]] = []
        made.state.before_store = lambda entries: stored.append((entries["given"], hold.is_set()))
        run = made.start(batches(1, 1, 1, 1, 1, 1), interval=0.01)
        # a marker may hold back the requests after the late one
        eventually(lambda: len(server.accepted) >= 3 and len(server.requests) > 3, 60, "one is late")
        hold.set()
        finish(run)
    assert not [position for position, answered in stored if position > 3 and not answered]
    assert made.position == {"given": 6}
    assert [row["id"] for row in made.written_rows] == list(range(6))


def test_all_nodes_of_a_pipeline_share_one_client():
    with endpoint(echo) as server:
        made = bench(server, parallelism=3)
        run = made.start(batches(9))
        eventually(lambda: server.requests, 60, "requests come")
        threads = [thread.name for thread in threading.enumerate() if thread.name == "http"]
        finish(run)
    assert len(threads) <= 1
    assert not [thread for thread in threading.enumerate() if thread.name == "http"]
    assert sorted(row["id"] for row in made.written_rows) == list(range(9))


# ── trouble ──────────────────────────────────────────────────────────────────────────────────────────────────


def unsettled(*replies: Reply):
    """Return these replies first, then echoes."""
    left = list(replies)
    return lambda request: left.pop(0) if left else echo(request)


@pytest.mark.parametrize(
    "trouble",
    [
        Reply(500),
        Reply(503, headers={"Retry-After": "0"}),
        Reply(599),
        Reply(408),
        Reply(429),
        Reply(drop=True),
        Reply(text=b'[{"id": 1}]', cut=True),
    ],
)
def test_transient_errors_are_retried(trouble):
    with endpoint(unsettled(trouble, trouble)) as server:
        made = bench(server)
        made.finish(batches(3))
    assert len(server.requests) == 3
    assert {request.text for request in server.requests} == {server.requests[0].text}
    assert len(made.written_rows) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_other_client_errors_fail_the_pipeline_immediately(status):
    with endpoint(lambda request: Reply(status, b"no\n such  thing")) as server:
        made = bench(server)
        error = made.failure(batches(3))
    assert len(server.requests) == 1
    assert f"POST {server.url} returned {status}" in str(error)
    assert str(error).endswith(": no such thing")
    assert not error.retriable
    assert not made.position


def test_a_request_that_times_out_is_retried():
    silent = threading.Event()
    waited_for: list[int] = []

    def first_silent(request: Request) -> Reply:
        if request.number == 1 and not silent.wait(30):
            waited_for.append(request.number)
        return echo(request)

    with endpoint(first_silent) as server:
        made = bench(server)
        made.config = {"external_http_handler": {"operator_timeout_sec": 0.2}}
        made.finish(batches(1))
        silent.set()
    assert len(made.written_rows) == 1
    assert not waited_for


def test_an_unavailable_endpoint_is_retried(caplog):
    with endpoint() as server:
        port = server.port
    made = bench(server)
    made.ends = False
    run = made.start(batches(5, 5))
    eventually(lambda: "connection refused; attempt 1" in caplog.text, 60, "the trouble is logged")
    with endpoint(echo, port=port):
        eventually(lambda: len(made.received_rows) == 10, 60, "the rows arrive")
        made.stop()
        finish(run)
    assert len(caplog.records) < 10
    assert made.position == {"given": 2}


def test_a_stop_does_not_wait_for_an_unavailable_endpoint():
    with endpoint() as server:
        pass
    made = bench(server)
    made.ends = False
    run = made.start(batches(5))
    eventually(lambda: made.call_log.count("process"), 60, "the rows are in the handler")
    made.stop()
    with pytest.raises(StreamlingError, match="POST http"):
        finish(run)
    assert not made.position


def test_a_drain_waits_for_requests_in_flight():
    go = threading.Event()

    def held(request: Request) -> Reply:
        go.wait(30)
        return echo(request)

    with endpoint(held) as server:
        made = bench(server, one_row_per_request=True)
        made.ends = False
        run = made.start(batches(10))
        eventually(lambda: server.at_once == 10, 60, "all requests are under way")
        made.stop()
        go.set()
        finish(run)
    assert [row["id"] for row in made.written_rows] == list(range(10))
    assert made.position == {"given": 1}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_under_random_failures_every_row_is_emitted_once_and_in_order(seed):
    chance = random.Random(seed)
    lock = threading.Lock()

    def flaky(request: Request) -> Reply:
        with lock:
            luck, seconds = chance.random(), chance.random() / 100
        troubles = [Reply(500), Reply(429), Reply(drop=True), Reply(text=request.text, cut=True)]
        return troubles[int(luck * 20)] if luck < 0.2 else Reply(text=request.text, seconds=seconds)

    counts = [chance.randint(1, 12) for _ in range(chance.randint(3, 12))]
    options = {"one_row_per_request": chance.random() < 0.5, "payload_version": chance.randint(0, 1)}
    if chance.random() < 0.5:
        options |= {"batch_size": chance.randint(1, 7), "batch_flush_interval": "5ms"}
    print(f"seed {seed}: {counts} {options}")
    with endpoint(flaky) as server:
        made = bench(server, **options)
        made.finish(batches(*counts), interval=0.02)
    assert [row["id"] for row in made.written_rows] == list(range(sum(counts)))
    assert made.position == {"given": len(counts)}


def test_no_message_contains_a_secret():
    def repeats(request: Request) -> Reply:
        return Reply(401, f"bad key {request.headers['X-Key']} and {request.headers['Authorization']}".encode())

    with endpoint(repeats) as server:
        url = server.url.replace("http://", "http://me:pa55word@") + "?token=t0ken"
        made = PipelineHarness(HandlerTransform, {"url": url, "primary_key": "id", "headers": {"X-Key": "hunter2"}})
        text = repr(made.failure(batches(1)))
    for secret in ("hunter2", "pa55word", "t0ken"):
        assert secret not in text


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=list(ENCODINGS))
def test_no_part_of_a_secret_is_shown_in_a_truncated_response(encode: Callable[[str], str]) -> None:
    secret = "cut/here &never  shown-1234567890"
    add_secrets([secret])
    said = encode(secret)
    with endpoint(lambda request: Reply(400, ("x" * 195 + said).encode())) as server:
        text = str(bench(server).failure(batches(1)))
    assert "x" * 195 in text
    assert f"x{said[:4]}" not in text


# ── rows that the endpoint refuses ───────────────────────────────────────────────────────────────────────────


def _with_dead_letters(server: Endpoint, limits: Mapping[str, Any] | None = None, **options: Any) -> PipelineRun:
    handler = {"type": "handler", "from": "rows", "primary_key": "id", "url": server.url, "errors": {"to": "bad"}}
    nodes = {
        "sources": {"rows": {"type": "numbers", "rows": 40, "batch": 20, "primary_key": "id"}},
        "transforms": {"asked": {**handler, **options}},
        "sinks": {"out": {"type": "memory", "from": "asked"}, "bad": {"type": "memory"}},
    }
    return Bench(NoSpark()).run(json.dumps(nodes), external_http_handler=limits or {})


def picky(request: Request) -> Reply:
    """Rejects requests with row 7, returns a text as the id of row 9."""
    rows = request.json if isinstance(request.json, list) else [request.json]
    if any(row["id"] == 7 for row in rows):
        return Reply(422, b"no sevens")
    return Reply.of([{**row, "id": "nine"} if row["id"] == 9 else row for row in rows])


@pytest.mark.parametrize("one_row", [True, False])
def test_rows_that_an_endpoint_rejects_go_to_the_dead_letter_sink(one_row):
    with endpoint(picky) as server:
        run = _with_dead_letters(server, one_row_per_request=one_row)
    assert collected_rows(run, "out")["id"].to_pylist() == [n for n in range(40) if n not in (7, 9)]
    seven, nine = collected_rows(run, "bad").to_pylist()
    assert (seven["position"], nine["position"]) == ("id=7", "id=9")
    assert "returned 422" in seven["error"]
    assert "no sevens" in seven["error"]
    assert "for column 'id' of row 1, expected int64" in nine["error"]
    assert nine["payload"] == '{"id":9,"name":"n9","_gs_op":"i"}'


def test_fewer_rows_are_sent_if_a_response_has_too_many_values():
    with endpoint(echo) as server:
        run = _with_dead_letters(server, limits={"max_response_values": 40})
    assert collected_rows(run, "out")["id"].to_pylist() == list(range(40))
    assert collected_rows(run, "bad").num_rows == 0
    assert max(len(request.rows) for request in server.requests) > 5


def test_an_authentication_error_does_not_reject_rows():
    with endpoint(lambda request: Reply(401, b"who?")) as server, pytest.raises(StreamlingError, match="401"):
        _with_dead_letters(server)
