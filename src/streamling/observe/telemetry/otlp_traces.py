"""Pushes spans to an OTLP endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streamling import __version__
from streamling.errors import StreamlingError
from streamling.network.policy import NetworkPolicy
from streamling.observe.telemetry.config import TelemetryConfig
from streamling.observe.telemetry.otlp import packages_needed, resource_of
from streamling.observe.telemetry.otlp_endpoint import Collector
from streamling.pipeline.config import AppConfig

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"


@dataclass(frozen=True)
class Span:
    """One step of a trace; times are nanoseconds of Unix time."""

    trace: bytes
    id: bytes
    #: empty for the first span of a trace
    parent: bytes
    name: str
    start: int
    end: int
    tags: Mapping[str, str] = field(default_factory=dict)
    #: what went wrong; empty if nothing did
    error: str = ""


#: takes the spans that have not been pushed yet, and puts those back that did not arrive
Take = Callable[[], Sequence[Span]]
PutBack = Callable[[Sequence[Span]], None]


@contextmanager
def create_trace_push(
    take: Take, put_back: PutBack, config: AppConfig, endpoint: Collector
) -> Iterator[Callable[[float], None]]:
    """Provide a function that pushes all spans to ``endpoint``. Imports packages that only this needs."""
    settings = config.part(TelemetryConfig).open_telemetry_traces
    with ExitStack() as resources:
        with packages_needed("traces"):
            from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

            from streamling.observe.telemetry.otlp_transport import Service, transport

            service = Service(_SERVICE, ExportTraceServiceResponse)
            send = resources.enter_context(
                transport(endpoint, settings.endpoint_protocol, service, NetworkPolicy.of(config.network))
            )

        def push(seconds: float) -> None:
            spans = take()
            if not spans:
                return
            try:
                answer = send(_request(spans, resource_of(config)), seconds)
            except StreamlingError:
                put_back(spans)
                raise
            if rejected := answer.partial_success.rejected_spans:
                raise StreamlingError(f"{rejected} spans were rejected: {answer.partial_success.error_message}")

        yield push


def _request(spans: Sequence[Span], resource: Mapping[str, str]) -> ExportTraceServiceRequest:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1 import trace_pb2 as otlp

    from streamling.observe.telemetry.otlp_messages import attributes

    made = [
        otlp.Span(
            trace_id=span.trace,
            span_id=span.id,
            parent_span_id=span.parent,
            name=span.name,
            kind=otlp.Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=span.start,
            end_time_unix_nano=span.end,
            attributes=attributes(span.tags),
            status=otlp.Status(code=otlp.Status.STATUS_CODE_ERROR, message=span.error) if span.error else None,
        )
        for span in spans
    ]
    scope = otlp.ScopeSpans(scope=InstrumentationScope(name="streamling", version=__version__), spans=made)
    owner = Resource(attributes=attributes(resource))
    return ExportTraceServiceRequest(resource_spans=[otlp.ResourceSpans(resource=owner, scope_spans=[scope])])
