"""The configuration of metrics and traces."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from streamling.pipeline.config import values
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.section import Section


def _endpoint(signal: str) -> Any:
    return Field(
        default=values.NO_ENDPOINT,
        examples=[f"http://localhost:4318/v1/{signal}"],
        json_schema_extra={"environment": f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"},
        description=f"OTLP endpoint; none: {signal} are not pushed.",
    )


def _protocol(variable: str) -> Any:
    return Field(
        default="http/protobuf",
        json_schema_extra={"environment": variable},
        description="Protocol of the endpoint; HttpBinary, HttpJson and Grpc are also accepted.",
    )


class OtlpSettings(Section):
    """Push of one kind of telemetry."""

    ingestion_endpoint: values.OtlpEndpoint = values.NO_ENDPOINT

    @property
    def pushes(self) -> bool:
        """Whether there is an endpoint to push to."""
        return self.ingestion_endpoint != values.NO_ENDPOINT


class OtlpMetricsSettings(OtlpSettings):
    """Push of metrics."""

    ingestion_endpoint: values.OtlpEndpoint = _endpoint("metrics")
    endpoint_protocol: values.OtlpProtocol = _protocol("OTEL_EXPORTER_OTLP_PROTOCOL")
    batch_interval_secs: float = Field(default=15, gt=0, description="Time between two pushes.")
    global_tags: values.Tags = Field(
        default="", examples=["environment:production,team:data"], description="Tags on every metric."
    )
    metric_deny_list: values.Names = Field(
        default=("kafka_producer.msg_encode_latency",),
        description="Names of metrics that are not recorded.",
    )

    @property
    def tags(self) -> dict[str, str]:
        """The tags of ``global_tags``."""
        return values.parse_tags(self.global_tags)


class OtlpTracesSettings(OtlpSettings):
    """Push of traces: one per checkpoint."""

    ingestion_endpoint: values.OtlpEndpoint = _endpoint("traces")
    endpoint_protocol: values.OtlpProtocol = _protocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    batch_interval_secs: float = Field(default=5, gt=0, description="Time between two pushes.")


class TelemetryConfig(CoreConfig):
    """The settings of metrics and traces."""

    open_telemetry_metrics: OtlpMetricsSettings = Field(default=OtlpMetricsSettings())
    open_telemetry_traces: OtlpTracesSettings = Field(default=OtlpTracesSettings())
    pod_name: str | None = Field(
        default=None,
        json_schema_extra={"environment": "POD_NAME"},
        description="Name of the pod, used as a tag of all metrics.",
    )
