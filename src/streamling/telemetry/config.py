"""The configuration of metrics and traces."""

from __future__ import annotations

from pydantic import Field

from streamling.config import values
from streamling.config.core import CoreConfig
from streamling.config.section import Section


class OpenTelemetryMetrics(Section):
    """Push of metrics."""

    ingestion_endpoint: values.OtlpEndpoint = Field(
        default=values.NO_ENDPOINT,
        examples=["http://localhost:4318/v1/metrics"],
        json_schema_extra={"environment": "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"},
        description="OTLP endpoint; none: metrics are not pushed.",
    )
    endpoint_protocol: values.OtlpProtocol = Field(
        default="http/protobuf",
        json_schema_extra={"environment": "OTEL_EXPORTER_OTLP_PROTOCOL"},
        description="Protocol of the endpoint; HttpBinary, HttpJson and Grpc are also accepted.",
    )
    batch_interval_secs: float = Field(default=15, gt=0, description="Time between two pushes.")
    global_tags: values.Tags = Field(
        default="", examples=["environment:production,team:data"], description="Tags on every metric."
    )
    metric_deny_list: values.Names = Field(
        default=("kafka_consumer.msg_decode_latency", "kafka_producer.msg_encode_latency"),
        description="Names of metrics that are not recorded.",
    )

    @property
    def tags(self) -> dict[str, str]:
        """The tags of ``global_tags``."""
        return values.parse_tags(self.global_tags)

    @property
    def pushes(self) -> bool:
        """Whether metrics are pushed."""
        return self.ingestion_endpoint != values.NO_ENDPOINT


class OpenTelemetryTraces(Section):
    """Push of traces: one per checkpoint."""

    ingestion_endpoint: values.OtlpEndpoint = Field(
        default=values.NO_ENDPOINT,
        examples=["http://localhost:4318/v1/traces"],
        json_schema_extra={"environment": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
        description="OTLP endpoint; none: traces are not pushed.",
    )
    endpoint_protocol: values.OtlpProtocol = Field(
        default="http/protobuf",
        json_schema_extra={"environment": "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"},
        description="Protocol of the endpoint; HttpBinary, HttpJson and Grpc are also accepted.",
    )
    batch_interval_secs: float = Field(default=5, gt=0, description="Time between two pushes.")

    @property
    def pushes(self) -> bool:
        """Whether traces are pushed."""
        return self.ingestion_endpoint != values.NO_ENDPOINT


class TelemetryConfig(CoreConfig):
    """The settings of metrics and traces."""

    open_telemetry_metrics: OpenTelemetryMetrics = Field(default=OpenTelemetryMetrics())
    open_telemetry_traces: OpenTelemetryTraces = Field(default=OpenTelemetryTraces())
    pod_name: str | None = Field(
        default=None,
        json_schema_extra={"environment": "POD_NAME"},
        description="Name of the pod, used as a tag of all metrics.",
    )
