"""Pushes to real receivers of all three protocols."""

from __future__ import annotations

import json
import runpy
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from streamling.errors import StreamlingError
from streamling.network.policy import ANY_ADDRESS
from streamling.observe.telemetry.metrics import BUCKETS, MetricStore
from streamling.observe.telemetry.otlp import Push, create_push
from streamling.observe.telemetry.otlp_endpoint import Collector
from streamling.observe.telemetry.otlp_transport import Service, transport
from streamling.pipeline.config import AppConfig
from streamling.redaction import add_secrets
from tests.connectors.http.test_corpus import CASES as HOSTILE
from tests.harness.endpoint import Reply
from tests.network.http.raw import raw_server
from tests.observe.telemetry.receiver import Receiver, receiving, value_of

METRICS = Service("opentelemetry.proto.collector.metrics.v1.MetricsService", ExportMetricsServiceResponse)
PROTOCOLS = ["http/protobuf", "http/json", "grpc"]


def config_of(receiver: Receiver, protocol: str = "http/protobuf", **settings: str) -> AppConfig:
    return AppConfig.model_validate(
        {
            "application_id": "orders_v1",
            "pod_name": "pod-7",
            "open_telemetry_metrics": {
                "ingestion_endpoint": receiver.url,
                "endpoint_protocol": protocol,
                **settings,
            },
        }
    )


@contextmanager
def pushed_to(
    receiver: Receiver, store: MetricStore, protocol: str = "http/protobuf", env: Mapping[str, str] | None = None
) -> Iterator[Push]:
    config = config_of(receiver, protocol)
    with create_push(store, config, Collector.of(config.open_telemetry_metrics.ingestion_endpoint, env or {})) as push:
        yield push


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving("http/protobuf") as there:
        yield there


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_everything_measured_arrives_in_every_protocol(protocol: str) -> None:
    store = MetricStore(tags={"environment": "test"})
    store.add_tags("orders", {"id": "orders", "team": "data"})
    store.of("orders").count("input_rows", 2**53 + 1)
    store.of("orders").gauge("depth", 2.5, {"partition": "3"})
    store.of("orders").latency("http_request_latency", 0.2)
    store.of("orders").latency("http_request_latency", 4000)
    env = {"OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=acme"}
    with receiving(protocol) as receiver, pushed_to(receiver, store, protocol, env) as push:
        push(10)
    tags = {"environment": "test", "id": "orders", "team": "data"}
    assert receiver.resource == {
        "service.name": "streamling",
        "service.instance.id": "orders_v1",
        "k8s.pod.name": "pod-7",
    }
    assert receiver.points("streamling_input_rows") == [(tags, 2**53 + 1)]
    assert receiver.points("streamling_depth") == [({**tags, "partition": "3"}, 2.5)]
    counter, latency = receiver.metric("streamling_input_rows"), receiver.metric("streamling_http_request_latency")
    assert (counter.sum.is_monotonic, counter.unit) == (True, "")
    assert counter.sum.aggregation_temporality == otlp.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert counter.sum.data_points[0].start_time_unix_nano == int(store.began * 1e9)
    assert counter.sum.data_points[0].time_unix_nano >= counter.sum.data_points[0].start_time_unix_nano
    assert latency.unit == "ms"
    assert latency.histogram.aggregation_temporality == otlp.AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = latency.histogram.data_points
    assert (point.count, point.sum) == (2, pytest.approx(4_000_200))
    assert list(point.explicit_bounds) == list(BUCKETS)
    assert list(point.bucket_counts) == [0, 1, *[0] * (len(BUCKETS) - 2), 1]
    assert receiver.headers[0]["x-tenant"] == "acme"


def test_json_is_that_of_otlp() -> None:
    store = MetricStore()
    store.of("orders").count("input_rows", 5)
    with receiving("http/json") as receiver, pushed_to(receiver, store, "http/json") as push:
        push(10)
        assert receiver.endpoint is not None
        (request,) = receiver.endpoint.requests
    metric = json.loads(request.text)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]
    assert metric["sum"]["aggregationTemporality"] == 2, "enumerations are numbers"
    assert metric["sum"]["dataPoints"][0]["asInt"] == "5", "64 bits do not fit into a number of JSON"


def test_the_receiver_of_the_example_prints_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "metrics" / "receiver.py"))
    store = MetricStore()
    store.add_tags("orders", {"id": "orders"})
    store.of("orders").count("input_rows", 5)
    store.of("").latency("checkpoint_epoch_duration", 1)
    with HTTPServer(("127.0.0.1", 0), example["Handler"]) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        with pushed_to(Receiver(f"http://127.0.0.1:{server.server_port}"), store, "http/json") as push:
            push(10)
            store.of("orders").gauge("depth", 2.5)
            push(10)
        server.shutdown()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["streamling_input_rows", "orders", "5"],
        ["streamling_checkpoint_epoch_duration", "-", "1"],
        ["streamling_depth", "orders", "2.5"],
    ]


# ── differences ──────────────────────────────────────────────────────────────────────────────────────────────


def test_differences_of_several_pushes_add_up_to_the_total(receiver: Receiver) -> None:
    store = MetricStore()
    with pushed_to(receiver, store) as push:
        for rows in (3, 0, 4):
            store.of("orders").count("output_rows", rows)
            push(10)
    assert [value for number in range(3) for _, value in receiver.points("streamling_output_rows", number)] == [3, 3, 7]
    delta = "streamling_output_rows_delta"
    assert receiver.pushes_of(delta) == [0, 2]
    first, second = receiver.metric(delta, 0).sum, receiver.metric(delta, 2).sum
    assert first.aggregation_temporality == otlp.AGGREGATION_TEMPORALITY_DELTA
    assert [value_of(sum.data_points[0]) for sum in (first, second)] == [3, 4]
    assert first.data_points[0].start_time_unix_nano == int(store.began * 1e9)
    assert second.data_points[0].start_time_unix_nano >= first.data_points[0].time_unix_nano


def test_a_difference_that_did_not_arrive_is_part_of_the_next_one(receiver: Receiver) -> None:
    assert receiver.endpoint is not None
    working, receiver.endpoint.answer = receiver.endpoint.answer, lambda request: Reply(503)
    store = MetricStore()
    with pushed_to(receiver, store) as push:
        store.of("orders").count("output_rows", 3)
        with pytest.raises(StreamlingError, match="the response was 503"):
            push(10)
        receiver.endpoint.answer = working
        store.of("orders").count("output_rows", 4)
        push(10)
    assert receiver.points("streamling_output_rows_delta") == [({}, 7)]


def test_tags_that_come_late_do_not_count_rows_again(receiver: Receiver) -> None:
    store = MetricStore()
    with pushed_to(receiver, store) as push:
        store.of("orders").count("output_rows", 3)
        push(10)
        store.add_tags("orders", {"topic": "a"})
        store.of("orders").count("output_rows", 1)
        push(10)
    assert receiver.points("streamling_output_rows_delta") == [({"topic": "a"}, 1)]


def test_differences_can_be_denied(receiver: Receiver) -> None:
    config = config_of(receiver, metric_deny_list="output_rows_delta")
    store = MetricStore()
    store.of("orders").count("output_rows", 3)
    with create_push(store, config, Collector.of(receiver.url, {})) as push:
        push(10)
    assert receiver.names() == {"streamling_output_rows"}


# ── what can go wrong ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rejected_points_are_reported(protocol: str) -> None:
    store = MetricStore()
    store.of("orders").count("seen")
    with receiving(protocol) as receiver, pushed_to(receiver, store, protocol) as push:
        receiver.answer.partial_success.rejected_data_points = 1
        receiver.answer.partial_success.error_message = "no room"
        with pytest.raises(StreamlingError, match="1 data points were rejected: no room"):
            push(10)


@pytest.mark.parametrize("text", [b"", b"OK", b"\xff\xfe"])
@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
def test_a_response_with_other_content_is_fine(text: bytes, protocol: str) -> None:
    with receiving(protocol) as receiver, pushed_to(receiver, MetricStore(), protocol) as push:
        assert receiver.endpoint is not None
        receiver.endpoint.answer = lambda request: Reply(text=text)
        push(10)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unavailable_receiver_is_reported_briefly(protocol: str) -> None:
    with receiving(protocol) as receiver:
        pass
    with pushed_to(receiver, MetricStore(), protocol) as push, pytest.raises(StreamlingError) as raised:
        push(10)
    assert "connection refused" in str(raised.value).lower()


def test_a_receiver_that_does_not_respond_is_not_awaited(receiver: Receiver) -> None:
    assert receiver.endpoint is not None
    receiver.endpoint.answer = lambda request: Reply(seconds=1)
    with pushed_to(receiver, MetricStore()) as push, pytest.raises(StreamlingError, match=r"no response within 0\.1 s"):
        push(0.1)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("text/plain", b"invalid temporality\nfor metric x", ": invalid temporality for metric x"),
        ("application/json", b'{"message": "no"}', ': {"message": "no"}'),
        ("text/plain", b"unknown key hunter2", ""),
        ("text/plain", b"unknown token hunter3", ""),
        ("text/plain", b"x" * 190 + b" otlp%2Fhunter%204", f": {'x' * 190} *********…"),
        ("text/html", b"<html>", ""),
        ("text/plain", b"", ""),
    ],
)
def test_a_rejection_is_reported_with_the_message_of_the_receiver_but_without_secrets(
    kind: str, text: bytes, message: str, receiver: Receiver
) -> None:
    assert receiver.endpoint is not None
    add_secrets(["otlp/hunter 4"])
    receiver.endpoint.answer = lambda request: Reply(400, text, {"Content-Type": kind})
    receiver.url += "?token=hunter3"
    with (
        pushed_to(receiver, MetricStore(), env={"OTEL_EXPORTER_OTLP_HEADERS": "key=Bearer hunter2"}) as push,
        pytest.raises(StreamlingError) as raised,
    ):
        push(10)
    assert str(raised.value) == f"the response was 400 Bad Request{message}"


def test_headers_are_not_sent_to_the_target_of_a_redirect(receiver: Receiver) -> None:
    assert receiver.endpoint is not None
    receiver.endpoint.answer = lambda request: Reply(302, headers={"Location": "/elsewhere"})
    with pushed_to(receiver, MetricStore()) as push, pytest.raises(StreamlingError, match="the response was 302"):
        push(10)
    assert len(receiver.endpoint.requests) == 1


@pytest.mark.parametrize(
    "case", [case for case in HOSTILE if "end" in case.get("name", "")], ids=lambda case: case["name"]
)
def test_an_endless_response_costs_only_the_time_of_one_push(case: dict[str, Any]) -> None:
    with (
        raw_server(case["sends"]) as server,
        transport(Collector.of(server.url, {}), "http/protobuf", METRICS, ANY_ADDRESS) as send,
        pytest.raises(StreamlingError, match=r"no response within 0\.5 s|more than 65536 bytes|got more than|was 103"),
    ):
        send(ExportMetricsServiceRequest(), 0.5)


@pytest.mark.parametrize(("protocol", "module"), [("http/json", "opentelemetry.proto"), ("grpc", "grpc")])
def test_a_missing_package_is_reported_with_the_command_to_install_it(
    protocol: str, module: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("streamling.telemetry.otlp_t", module))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # what Python does for a missing module
    with pytest.raises(StreamlingError) as raised, pushed_to(receiver, MetricStore(), protocol):
        pass
    assert "metrics are not pushed: the Python module" in str(raised.value)
    assert raised.value.remedy == "pip install 'streamling[otlp]'"
