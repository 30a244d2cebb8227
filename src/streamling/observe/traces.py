"""Epochs as traces: when each source sent its marker, when it passed each node, and when each sink had flushed."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from streamling.observe.epochs import EpochLog, EpochRecord
from streamling.observe.telemetry.config import TelemetryConfig
from streamling.observe.telemetry.otlp_traces import Span, create_trace_push
from streamling.observe.telemetry.reporting import Reporter
from streamling.pipeline.config import AppConfig

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
    from streamling.observe.telemetry.otlp_endpoint import Collector

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
