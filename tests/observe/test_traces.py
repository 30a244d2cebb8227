"""Traces of epochs, as a real OTLP receiver gets them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1 import trace_pb2 as otlp

from streamling.observe.epochs import EpochLog
from streamling.observe.traces import reporting_traces
from streamling.pipeline.config import AppConfig
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.pipelines import eventually
from tests.observe.clock import ManualClock
from tests.observe.telemetry.receiver import tags_of

PROTOCOLS = ("http/protobuf", "http/json", "grpc")


@contextmanager
def receiving(protocol: str) -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A receiver of traces: its address, and what has arrived."""
    arrived: list[ExportTraceServiceRequest] = []
    with (_grpc if protocol == "grpc" else _http)(arrived) as url:
        yield url, arrived


@contextmanager
def _http(arrived: list[ExportTraceServiceRequest]) -> Iterator[str]:
    def take(request: Request) -> Reply:
        message = ExportTraceServiceRequest()
        if request.headers["Content-Type"] == "application/json":
            json_format.ParseDict(_with_bytes(request.json), message)
        else:
            message.ParseFromString(request.text)
        arrived.append(message)
        assert request.path == "/v1/traces"
        return Reply()

    with endpoint(take) as server:
        yield f"http://127.0.0.1:{server.port}"


def _with_bytes(value: Any) -> Any:
    """OTLP writes ids in JSON as hex digits, Protobuf expects base64."""
    from base64 import b64encode

    if isinstance(value, dict):
        ids = ("traceId", "spanId", "parentSpanId")
        return {
            name: b64encode(bytes.fromhex(part)).decode() if name in ids else _with_bytes(part)
            for name, part in value.items()
        }
    return [_with_bytes(part) for part in value] if isinstance(value, list) else value


@contextmanager
def _grpc(arrived: list[ExportTraceServiceRequest]) -> Iterator[str]:
    class Service(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - a name of the protocol
            arrived.append(request)
            return ExportTraceServiceResponse()

    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


def config(url: str, protocol: str = "http/protobuf", interval: float = 0.05) -> AppConfig:
    settings = {"ingestion_endpoint": url, "endpoint_protocol": protocol, "batch_interval_secs": interval}
    return AppConfig(application_id="shop", open_telemetry_traces=settings)


def run_epoch(log: EpochLog, clock: ManualClock, epoch: int = 1) -> None:
    log.started(epoch, False, ["orders"], ["out"])
    clock.advance(0.1)
    log.marked("orders", epoch, {})
    log.arrived("enrich", epoch)
    clock.advance(0.2)
    log.passed("enrich", epoch)
    log.arrived("out", epoch)
    clock.advance(0.3)
    log.acked("out", epoch)
    log.storing(epoch)
    clock.advance(0.4)
    log.finalized(epoch, 1.0)


def spans(arrived: list[ExportTraceServiceRequest]) -> list[otlp.Span]:
    return [span for message in arrived for span in message.resource_spans[0].scope_spans[0].spans]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_epoch_is_a_trace_across_source_nodes_and_sinks(protocol):
    clock = ManualClock()
    log = EpochLog(now=clock)
    with receiving(protocol) as (url, arrived):
        with reporting_traces(log, config(url, protocol), {}):
            run_epoch(log, clock)
            eventually(lambda: spans(arrived))
        root, *steps = spans(arrived)
        assert tags_of(arrived[0].resource_spans[0].resource)["service.instance.id"] == "shop"
    assert (root.name, root.parent_span_id, tags_of(root)["epoch"]) == ("checkpoint", b"", "1")
    assert {span.trace_id for span in steps} == {root.trace_id}
    assert {span.parent_span_id for span in steps} == {root.span_id}

    def milliseconds(span: otlp.Span) -> tuple[int, int]:
        times = (span.start_time_unix_nano, span.end_time_unix_nano)
        return tuple(round((time - root.start_time_unix_nano) / 1e6) for time in times)

    assert {(span.name, tags_of(span).get("node", "")): milliseconds(span) for span in steps} == {
        ("mark", "orders"): (0, 100),
        ("pass", "enrich"): (100, 300),
        ("flush", "out"): (300, 600),
        ("store", ""): (600, 1000),
    }
    assert milliseconds(root) == (0, 1000)


def test_a_failed_epoch_has_an_error_that_names_who_is_missing():
    log = EpochLog(now=ManualClock())
    with receiving("http/protobuf") as (url, arrived):
        with reporting_traces(log, config(url), {}):
            log.started(1, False, ["orders"], ["out"])
            log.marked("orders", 1, {})
            log.failed()
        (root, *_) = spans(arrived)
    assert root.status.code == otlp.Status.STATUS_CODE_ERROR
    assert root.status.message == "not complete; missing: out"


def test_traces_that_did_not_arrive_are_pushed_again(caplog):
    clock = ManualClock()
    log = EpochLog(now=clock)
    with receiving("http/protobuf") as (url, arrived):
        pass
    port = int(url.rpartition(":")[2])
    with reporting_traces(log, config(url), {}):
        run_epoch(log, clock)
        eventually(lambda: "cannot push traces" in caplog.text)

        def take(request: Request) -> Reply:
            message = ExportTraceServiceRequest()
            message.ParseFromString(request.text)
            arrived.append(message)
            return Reply()

        with endpoint(take, port=port):
            eventually(lambda: spans(arrived))
    assert spans(arrived)[0].name == "checkpoint"


def test_no_trace_is_pushed_before_its_interval_has_passed():
    log = EpochLog(now=ManualClock())
    with receiving("http/protobuf") as (url, arrived):
        with reporting_traces(log, config(url, interval=3600), {}):
            run_epoch(log, ManualClock())
            time.sleep(5.5)  # the default interval is 5 s
            assert not arrived
        assert next(span.name for span in spans(arrived)) == "checkpoint"


def test_without_an_endpoint_nothing_is_collected():
    log = EpochLog(now=ManualClock())
    before = log.on_end
    with reporting_traces(log, AppConfig(), {}):
        assert log.on_end is before
