"""Pushes the metrics of a run to an OTLP endpoint."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from streamling.errors import StreamlingError
from streamling.network.policy import NetworkPolicy
from streamling.observe.telemetry.catalogue import ROWS, ROWS_DELTA
from streamling.observe.telemetry.config import TelemetryConfig
from streamling.observe.telemetry.metrics import MetricStore, Series, SeriesKey
from streamling.observe.telemetry.otlp_endpoint import Collector
from streamling.pipeline.config import AppConfig

if TYPE_CHECKING:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    from streamling.observe.telemetry.otlp_transport import Send

_SERVICE: Final = "opentelemetry.proto.collector.metrics.v1.MetricsService"


@contextmanager
def create_push(metrics: MetricStore, config: AppConfig, endpoint: Collector) -> Iterator[Push]:
    """Provide a function that pushes all of ``metrics`` to ``endpoint``. Imports packages that only this needs."""
    settings = config.part(TelemetryConfig).open_telemetry_metrics
    with ExitStack() as resources:
        with packages_needed("metrics"):
            from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

            from streamling.observe.telemetry.otlp_transport import Service, transport

            service = Service(_SERVICE, ExportMetricsServiceResponse)
            send = resources.enter_context(
                transport(endpoint, settings.endpoint_protocol, service, NetworkPolicy.of(config.network))
            )
        yield Push(metrics, send, resource_of(config), deltas=ROWS_DELTA not in settings.metric_deny_list)


class Push:
    """Pushes when called, with a time limit."""

    def __init__(
        self,
        metrics: MetricStore,
        send: Send[ExportMetricsServiceResponse],
        resource: Mapping[str, str],
        *,
        deltas: bool,
    ) -> None:
        self._metrics = metrics
        self._send = send
        self._resource = resource
        self._deltas = deltas
        #: time of the last successful push, and the rows it reported
        self._since = self._began = int(metrics.began * 1e9)
        self._exported: Mapping[SeriesKey, float] = {}

    def __call__(self, seconds: float) -> None:
        from streamling.observe.telemetry.otlp_messages import Period, request

        snapshot, now = self._metrics.snapshot(), time.time_ns()
        rows = {series.key: series for series in snapshot if series.name == ROWS} if self._deltas else {}
        message = request(
            self._resource, Period(self._began, now), snapshot, Period(self._since, now), self._new(rows.values())
        )
        answer = self._send(message, seconds)
        # only now: what did not arrive is part of the next difference
        self._since, self._exported = now, {key: _number(series) for key, series in rows.items()}
        if rejected := answer.partial_success.rejected_data_points:
            raise StreamlingError(f"{rejected} data points were rejected: {answer.partial_success.error_message}")

    def _new(self, rows: Iterable[Series]) -> Iterator[Series]:
        for series in rows:
            if (more := _number(series) - self._exported.get(series.key, 0)) > 0:
                yield replace(series, value=more)


def _number(series: Series) -> float:
    assert isinstance(series.value, int | float)
    return series.value


def resource_of(config: AppConfig) -> dict[str, str]:
    """Return the pipeline that measured."""
    resource = {"service.name": "streamling", "service.instance.id": config.application_id}
    pod = config.part(TelemetryConfig).pod_name
    return {**resource, "k8s.pod.name": pod} if pod else resource


@contextmanager
def packages_needed(what: str) -> Iterator[None]:
    """Say what to install if a package is missing."""
    try:
        yield
    except ImportError as error:
        raise StreamlingError.user(
            f"{what} are not pushed: the Python module {error.name} is not installed",
            remedy="pip install 'streamling[otlp]'",
        ) from error
