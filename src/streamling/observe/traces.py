"""Epochs as traces: when each source sent its marker, when it passed each node, and when each sink had flushed."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from streamling import __version__
from streamling.errors import StreamlingError
from streamling.network.policy import NetworkPolicy
from streamling.observe.epochs import EpochLog, EpochRecord
from streamling.observe.telemetry.config import TelemetryConfig
from streamling.observe.telemetry.otlp import packages_needed, resource_of
from streamling.observe.telemetry.otlp_endpoint import Collector
from streamling.observe.telemetry.reporting import Reporter
from streamling.pipeline.config import AppConfig

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


#: spans that wait for the receiver; older ones are dropped
_MOST_WAITING: Final = 10_000
_NANOSECONDS: Final = 1_000_000_000


@contextmanager
def reporting_traces(epochs: EpochLog, config: AppConfig, env: Mapping[str, str]) -> Iterator[None]:
    """Push a trace of every epoch that ends while the block runs, as ``config`` says."""
    settings = config.part(TelemetryConfig).open_telemetry_traces
    if not settings.pushes:
        yield
        return
    waiting = WaitingSpans()
    epochs.on_end = lambda record: waiting.add(list(spans_of(record)))
    endpoint = Collector.of(settings.ingestion_endpoint, env, "traces")
    push = partial(create_trace_push, waiting.take, waiting.put_back, config, endpoint)
    with Reporter(f"push traces to {endpoint.shown}", settings.batch_interval_secs, push):
        yield


class WaitingSpans:
    """Spans that have not been pushed yet."""

    def __init__(self) -> None:
        self._spans: deque[Span] = deque(maxlen=_MOST_WAITING)
        self._lock = threading.Lock()

    def add(self, spans: Sequence[Span]) -> None:
        with self._lock:
            self._spans.extend(spans)

    def take(self) -> list[Span]:
        with self._lock:
            taken, self._spans = list(self._spans), deque(maxlen=_MOST_WAITING)
            return taken

    def put_back(self, spans: Sequence[Span]) -> None:
        with self._lock:
            self._spans = deque([*spans, *self._spans], maxlen=_MOST_WAITING)


def spans_of(record: EpochRecord) -> Iterator[Span]:
    """Yield the trace of an epoch that has ended."""
    trace, root = secrets.token_bytes(16), secrets.token_bytes(8)
    began = int(record.started_at.timestamp() * _NANOSECONDS)
    duration = record.duration or 0.0
    epoch = {"epoch": str(record.epoch)}

    def span(name: str, start: float, end: float, **tags: str) -> Span:
        begin, finish = (began + int(seconds * _NANOSECONDS) for seconds in (start, max(start, end)))
        return Span(trace, secrets.token_bytes(8), root, name, begin, finish, {**epoch, **tags})

    error = "" if record.status == "complete" else f"not complete; missing: {', '.join(record.missing)}"
    terminal = {"terminal": str(record.terminal).lower()}
    end = began + int(duration * _NANOSECONDS)
    yield Span(trace, root, b"", "checkpoint", began, end, {**epoch, **terminal}, error)
    for flow, at in record.markers.items():
        yield span("mark", 0.0, at, node=flow)
    for node, at in record.arrivals.items():
        if node not in record.acks:
            yield span("pass", at, record.departures.get(node, duration), node=node)
    for sink, at in record.acks.items():
        yield span("flush", record.arrivals.get(sink, at), at, node=sink)
    if record.stored_from is not None:
        yield span("store", record.stored_from, duration)


# ── OTLP ─────────────────────────────────────────────────────────────────────────────────────────────────────────

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
    """A function that pushes all spans to ``endpoint``. Imports packages that only this needs."""
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
