"""The configuration of metrics."""

from __future__ import annotations

from pydantic import Field

from streamling.config import values
from streamling.config.core import CoreConfig
from streamling.config.section import Section


class OpenTelemetryMetrics(Section):
    """Where metrics are pushed to."""

    ingestion_endpoint: values.OtlpEndpoint = Field(
        default=values.NO_ENDPOINT,
        examples=["http://localhost:4318/v1/metrics"],
        json_schema_extra={"environment": "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"},
        description="OTLP endpoint; none: no push.",
    )
    endpoint_protocol: values.OtlpProtocol = Field(
        default="http/protobuf",
        json_schema_extra={"environment": "OTEL_EXPORTER_OTLP_PROTOCOL"},
        description="What it speaks; also HttpBinary, HttpJson, Grpc.",
    )
    batch_interval_secs: float = Field(default=15, gt=0, description="Time between two pushes.")
    global_tags: values.Tags = Field(
        default="", examples=["environment:production,team:data"], description="Tags on every metric."
    )
    metric_deny_list: values.Names = Field(
        default=("kafka_consumer.msg_decode_latency", "kafka_producer.msg_encode_latency"),
        description="Metrics that are not recorded.",
    )

    @property
    def tags(self) -> dict[str, str]:
        """``global_tags`` one by one."""
        return values.parse_tags(self.global_tags)

    @property
    def pushes(self) -> bool:
        """Whether there is anywhere to push to."""
        return self.ingestion_endpoint != values.NO_ENDPOINT


class TelemetryConfig(CoreConfig):
    """What metrics add to the configuration."""

    open_telemetry_metrics: OpenTelemetryMetrics = Field(default=OpenTelemetryMetrics())
    pod_name: str | None = Field(
        default=None, json_schema_extra={"environment": "POD_NAME"}, description="Pod, as a tag on metrics."
    )
