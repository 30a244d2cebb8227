"""`AppConfig`: every setting of the application, its default, its meaning."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from streamling.config import sections, values
from streamling.pipeline.identity import FORMER_DEFAULT


def default_cache_dir(env: Mapping[str, str]) -> Path:
    """The user's cache folder on this platform, plus our name."""
    home = Path(env.get("HOME") or Path.home())
    if cache_home := env.get("XDG_CACHE_HOME"):
        return Path(cache_home) / "streamling"
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "streamling"


class AppConfig(sections.Section):
    """The application's configuration. Made by `load_config`; ``AppConfig()`` holds the defaults."""

    application_id: str = Field(
        default=FORMER_DEFAULT,
        min_length=1,
        description="Name of this pipeline in the state, in consumer groups and in metrics.",
        json_schema_extra={"shown_default": "`name` of the pipeline file, else its path without the ending"},
    )
    log_format: values.LogFormat = Field(default="text", description="Log lines for people or for machines.")
    log_level: str = Field(
        default="info",
        json_schema_extra={"environment": "RUST_LOG"},
        description="Least important log lines shown: error, warn, info, debug, trace.",
    )
    pipeline_definition_location: values.LocalPath = Field(
        default=Path("./pipeline.yaml"),
        validate_default=True,
        description="Pipeline file, when none is named.",
    )
    record_batch_interval_ms: int = Field(
        default=100,
        ge=1,
        description="`batch_flush_interval` of Kafka sources that have none; no wait unless it is set.",
    )
    record_batch_size: int = Field(
        default=1000,
        ge=1,
        description="`batch_size` of Kafka sources that have none; 200 000 or more unless it is set.",
    )
    internal_buffer_size: int = Field(
        default=10, ge=1, description="Batches that may wait in front of a node; 2 unless it is set."
    )
    num_records_before_stop: int | None = Field(default=None, ge=1, description="Stop after that many rows.")
    checkpoint_interval_sec: float = Field(default=5, gt=0, description="Time between two checkpoints.")
    checkpoint_timeout_sec: float = Field(
        default=300, gt=0, description="A checkpoint that takes longer stops the pipeline."
    )
    startup_timeout_sec: float = Field(
        default=10,
        ge=0,
        description="Longest wait at the start for a broker, registry or database that cannot be reached.",
    )
    enforce_primary_keys: bool = Field(default=False, description="Refuse pipelines whose sinks have no key.")
    job_mode: bool = Field(default=False, description="End after the bounded sources.")
    drain_policy: values.DrainPolicy = Field(default="auto", description="What a stop does with rows under way.")
    shutdown_budget_secs: float = Field(default=25, gt=0, description="Longest time from signal to exit.")
    plugin_drain_budget_secs: float = Field(
        default=60,
        gt=0,
        json_schema_extra=sections.no_effect("plugins have shutdown_budget_secs as all nodes do"),
        description="No effect: plugins have `shutdown_budget_secs` as all nodes do.",
    )
    backpressure_event_threshold_ms: int = Field(
        default=100,
        ge=0,
        json_schema_extra=sections.no_effect("back-pressure events are not counted in this version"),
        description="No effect: back-pressure events are not counted in this version.",
    )
    preview_tolerant_mode: bool = Field(
        default=False,
        json_schema_extra=sections.no_effect("this version has no preview"),
        description="No effect: this version has no preview.",
    )

    live_data_inspect_enabled: bool = Field(
        default=False,
        json_schema_extra=sections.no_effect("this version has no admin API"),
        description="Serve rows of running nodes; no effect in this version, which has no admin API.",
    )
    live_data_inspect: sections.LiveDataInspect = Field(default=sections.LiveDataInspect())
    admin_api_host: str = Field(
        default="127.0.0.1",
        json_schema_extra=sections.no_effect("this version has no admin API"),
        description="Address the admin API listens on.",
    )
    admin_api_port: int = Field(
        default=3000,
        ge=0,
        le=65535,
        json_schema_extra=sections.no_effect("this version has no admin API"),
        description="Its port; 0: any free one.",
    )
    admin_api_token: SecretStr | None = Field(
        default=None,
        json_schema_extra=sections.no_effect("this version has no admin API"),
        description="Bearer token; required when the admin API listens beyond this machine.",
    )
    pod_name: str | None = Field(
        default=None, json_schema_extra={"environment": "POD_NAME"}, description="Pod, as a tag on metrics."
    )

    http_secret_header: dict[str, str] = Field(default={}, description="Header name by `secret_name`.")
    http_secret_value: dict[str, SecretStr] = Field(default={}, description="Header value by `secret_name`.")
    secrets: dict[str, SecretStr] = Field(
        default={}, description="Value of `${secret:NAME}` in pipeline files, by name."
    )
    network: sections.Network = Field(default=sections.Network())

    spark: sections.Spark = Field(default=sections.Spark())
    cache_dir: values.LocalPath = Field(
        default_factory=lambda: default_cache_dir(os.environ),
        description="Folder for what is prepared once: start-up archives, connectors.",
        json_schema_extra={"shown_default": "the user's cache folder + `/streamling`"},
    )
    state_backend: sections.StateBackend = Field(default=sections.StateBackend())
    dynamic_table_backend: sections.DynamicTableBackend = Field(default=sections.DynamicTableBackend())

    external_http_handler: sections.HttpHandler = Field(default=sections.HttpHandler())
    wasm_script: sections.WasmScript = Field(default=sections.WasmScript())
    plugin: sections.Plugin = Field(default=sections.Plugin())

    kafka_source: sections.KafkaSource = Field(default=sections.KafkaSource())
    kafka_sink: sections.KafkaSink = Field(default=sections.KafkaSink())
    clickhouse_source: sections.ClickHouseSource = Field(default=sections.ClickHouseSource())
    clickhouse_sink: sections.ClickHouseSink = Field(default=sections.ClickHouseSink())
    file_source: values.AnyMap = Field(
        default={},
        json_schema_extra=sections.no_effect("the file source has no settings here"),
        description="No effect: the file source has no settings here.",
    )
    print_sink: sections.PrintSink = Field(default=sections.PrintSink())
    postgres_sink: sections.PostgresSink = Field(default=sections.PostgresSink())
    postgres_sink_connections: dict[str, sections.PostgresConnection] = Field(
        default={},
        description="Another server for one sink, by its name in lower case with `_` for the rest.",
    )

    open_telemetry_metrics: sections.OpenTelemetryMetrics = Field(default=sections.OpenTelemetryMetrics())
    test_settings: sections.TestSettings = Field(default=sections.TestSettings())

    @model_validator(mode="after")
    def _token_when_reachable(self) -> Self:
        if self.admin_api_token is None and not _is_loopback(self.admin_api_host):
            raise ValueError("admin_api_token is required when admin_api_host is not a loopback address")
        return self

    @property
    def state_acquire_timeout(self) -> float:
        """Longest wait for a connection to the state database: well within the shutdown budget."""
        configured = self.state_backend.postgres.acquire_timeout_secs if self.state_backend.postgres else None
        return configured or max(1.0, min(5.0, self.shutdown_budget_secs / 2))

    def postgres_connection(self, sink: str) -> sections.PostgresSink:
        """The Postgres settings of ``sink``: ``postgres_sink`` with what its own connection overrides."""
        own = self.postgres_sink_connections.get(connection_key(sink))
        if own is None:
            return self.postgres_sink
        return self.postgres_sink.model_copy(update={k: v for k, v in own if v is not None})

    def postgres_setting(self, sink: str, name: str) -> str:
        """The setting that a value of `postgres_connection` comes from."""
        key, shown = connection_key(sink), name.rstrip("_")
        own = self.postgres_sink_connections.get(key)
        is_own = own is not None and getattr(own, name) is not None
        return f"postgres_sink_connections.{key}.{shown}" if is_own else f"postgres_sink.{shown}"


def connection_key(sink: str) -> str:
    """The name of ``sink`` as a key of ``postgres_sink_connections`` and in environment names."""
    return re.sub(r"[^a-z0-9]+", "_", sink.lower()).strip("_")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
