"""A real OTLP receiver on loopback, for each protocol, that records what arrives."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from tests.harness.endpoint import Endpoint, Reply, Request, endpoint

#: tags, value
Point = tuple[dict[str, str], Any]


@dataclass
class Receiver:
    url: str = ""
    messages: list[ExportMetricsServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    #: the HTTP server underneath
    endpoint: Endpoint | None = None
    #: the response
    answer: ExportMetricsServiceResponse = field(default_factory=ExportMetricsServiceResponse)

    def take(self, message: ExportMetricsServiceRequest, headers: dict[str, str]) -> None:
        self.messages.append(message)
        self.headers.append({name.lower(): value for name, value in headers.items()})

    @property
    def resource(self) -> dict[str, str]:
        return tags_of(self.messages[-1].resource_metrics[0].resource)

    def metric(self, name: str, push: int = -1) -> otlp.Metric:
        """The metric ``name`` of one push."""
        (scope,) = self.messages[push].resource_metrics[0].scope_metrics
        return next(metric for metric in scope.metrics if metric.name == name)

    def names(self) -> set[str]:
        return {
            metric.name
            for message in self.messages
            for scope in message.resource_metrics[0].scope_metrics
            for metric in scope.metrics
        }

    def points(self, name: str, push: int = -1) -> list[Point]:
        """Tags and values of all series of ``name``."""
        metric = self.metric(name, push)
        data = getattr(metric, metric.WhichOneof("data")).data_points
        return [(tags_of(point), value_of(point)) for point in data]

    def pushes_of(self, name: str) -> list[int]:
        """The pushes that contain ``name``."""
        return [
            number
            for number, message in enumerate(self.messages)
            if any(metric.name == name for metric in message.resource_metrics[0].scope_metrics[0].metrics)
        ]


def tags_of(thing: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in thing.attributes}


def value_of(point: Any) -> Any:
    return getattr(point, point.WhichOneof("value")) if isinstance(point, otlp.NumberDataPoint) else point


@contextmanager
def receiving(protocol: str, port: int = 0) -> Iterator[Receiver]:
    """A receiver of ``protocol`` until the end of the block."""
    receiver = Receiver()
    with (_grpc if protocol == "grpc" else _http)(receiver, port):
        yield receiver


@contextmanager
def _http(receiver: Receiver, port: int) -> Iterator[None]:
    def take(request: Request) -> Reply:
        as_json = request.headers["Content-Type"] == "application/json"
        message = ExportMetricsServiceRequest()
        if as_json:
            json_format.Parse(request.text, message)
        else:
            message.ParseFromString(request.text)
        receiver.take(message, request.headers)
        return Reply(text=json_format.MessageToJson(receiver.answer).encode() if as_json else _bytes(receiver.answer))

    with endpoint(take, port=port) as server:
        receiver.endpoint = server
        receiver.url = f"http://127.0.0.1:{server.port}/v1/metrics"
        yield


def _bytes(message: ExportMetricsServiceResponse) -> bytes:
    return message.SerializeToString()


@contextmanager
def _grpc(receiver: Receiver, port: int) -> Iterator[None]:
    class Service(metrics_service_pb2_grpc.MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - a name of the protocol
            receiver.take(request, dict(context.invocation_metadata()))
            return receiver.answer

    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Service(), server)
        receiver.url = f"http://127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
        server.start()
        try:
            yield
        finally:
            server.stop(None).wait()
