"""Converts a snapshot to an OTLP message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from streamling import __version__
from streamling.observe.telemetry.catalogue import PREFIX, ROWS_DELTA, meaning_of, unit_of
from streamling.observe.telemetry.metrics import BUCKETS, Distribution, Kind, Series


@dataclass(frozen=True)
class Period:
    """Start and end of a measurement, in nanoseconds of Unix time."""

    start: int
    end: int


def request(
    resource: Mapping[str, str], whole: Period, snapshot: Iterable[Series], last: Period, rows: Iterable[Series]
) -> ExportMetricsServiceRequest:
    """Return a message with all of ``snapshot``, measured over the ``whole`` time, and the ``rows`` of the ``last``
    part of it."""
    by_name: dict[str, list[Series]] = {}
    for series in snapshot:
        by_name.setdefault(series.name, []).append(series)
    metrics = [_metric(name, members, whole) for name, members in by_name.items()]
    if points := [_number(series, last) for series in rows]:
        delta = _named(ROWS_DELTA, "counter")
        delta.sum.CopyFrom(_sum(points, otlp.AGGREGATION_TEMPORALITY_DELTA))
        metrics.append(delta)
    scope = otlp.ScopeMetrics(scope=InstrumentationScope(name="streamling", version=__version__), metrics=metrics)
    source = Resource(attributes=attributes(resource))
    return ExportMetricsServiceRequest(resource_metrics=[otlp.ResourceMetrics(resource=source, scope_metrics=[scope])])


def _metric(name: str, members: list[Series], period: Period) -> otlp.Metric:
    kind = members[0].kind
    metric = _named(name, kind)
    if kind == "histogram":
        metric.histogram.data_points.extend(_buckets(series, period) for series in members)
        metric.histogram.aggregation_temporality = otlp.AGGREGATION_TEMPORALITY_CUMULATIVE
        return metric
    points = [_number(series, period) for series in members]
    if kind == "gauge":
        metric.gauge.data_points.extend(points)
    else:
        metric.sum.CopyFrom(_sum(points, otlp.AGGREGATION_TEMPORALITY_CUMULATIVE))
    return metric


def _named(name: str, kind: Kind) -> otlp.Metric:
    return otlp.Metric(name=PREFIX + name, description=meaning_of(name), unit=unit_of(name, kind))


def _sum(points: Iterable[otlp.NumberDataPoint], temporality: otlp.AggregationTemporality.ValueType) -> otlp.Sum:
    return otlp.Sum(data_points=points, aggregation_temporality=temporality, is_monotonic=True)


def _number(series: Series, period: Period) -> otlp.NumberDataPoint:
    point = otlp.NumberDataPoint(attributes=attributes(series.tags), time_unix_nano=period.end)
    assert not isinstance(series.value, Distribution)
    if series.kind == "gauge":
        point.as_double = series.value  # one type for all values, even if one happens to be whole
        return point
    point.start_time_unix_nano = period.start
    point.as_int = int(series.value)
    return point


def _buckets(series: Series, period: Period) -> otlp.HistogramDataPoint:
    assert isinstance(series.value, Distribution)
    return otlp.HistogramDataPoint(
        attributes=attributes(series.tags),
        start_time_unix_nano=period.start,
        time_unix_nano=period.end,
        count=series.value.count,
        sum=series.value.sum,
        bucket_counts=series.value.buckets,
        explicit_bounds=BUCKETS,
    )


def attributes(tags: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in sorted(tags.items())]
