"""The sections of `config.yaml` that describe the systems a pipeline talks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, model_validator

from streamling.config import values
from streamling.pipeline.scalars import Duration

_EMPTY = SecretStr("")


def no_effect(why: str) -> dict[str, Any]:
    """Marks a setting that is accepted for files of the original: a value other than the default is warned about."""
    return {"no_effect": why}


class Section(BaseModel):
    """Base of all parts of the configuration: does not change once read, never prints a secret."""

    #: why no setting of this section does anything; None: they do
    no_effect: ClassVar[str | None] = None

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
        coerce_numbers_to_str=True,
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if isinstance(value, dict):
                value = values.mask_map(value)
            yield name, values.mask_url(value) if isinstance(value, str) else value

    def __str__(self) -> str:
        return repr(self)

    def given(self, name: str) -> Any | None:
        """The value of ``name`` if somebody set it, None for a default."""
        return getattr(self, name) if name in self.model_fields_set else None


# ── state and dynamic tables ────────────────────────────────────────────────────────────────────────────────


class SqliteState(Section):
    """The state file."""

    database_path: values.LocalPath = Field(
        default=Path("./state.db"),
        validate_default=True,
        description="State file, created when missing.",
    )
    max_connections: int | None = Field(
        default=None,
        ge=1,
        json_schema_extra=no_effect("one connection writes the file"),
        description="No effect: one connection writes the file.",
    )
    state_table_name: str = Field(default="state", description="Table of the entries.")


class PostgresServer(Section):
    """How to reach the Postgres database of the state and of dynamic tables."""

    host: str = Field(default="localhost", description="Server name or address.")
    port: int = Field(default=5432, ge=1, le=65535, description="Server port.")
    db: str = Field(default="streamling", description="Database.")
    user: str = Field(default="graph-node", description="User.")
    password: SecretStr = Field(default=_EMPTY, description="Password.")
    sslmode: values.SslMode = Field(default="require", description="TLS, with libpq's meaning.")
    sslrootcert: values.LocalPath | None = Field(
        default=None,
        description="Certificates to trust with verify-ca and verify-full; else libpq's own place.",
    )


class PostgresState(PostgresServer):
    """The state table in Postgres."""

    max_connections: int = Field(
        default=20,
        ge=1,
        json_schema_extra=no_effect("one connection stores the positions of all sources in one transaction"),
        description="No effect: one connection stores all positions in one transaction.",
    )
    state_schema_name: str = Field(default="streamling", description="Schema, created when missing.")
    state_table_name: str = Field(default="state", description="Table, created when missing.")
    acquire_timeout_secs: float | None = Field(
        default=None,
        ge=1,
        description="Longest wait for a connection; else min(5, shutdown budget / 2), at least 1.",
    )


class StateBackend(Section):
    """Where positions are kept between runs."""

    backend_type: values.BackendType = Field(default="Sqlite", description="Where state is kept.")
    sqlite: SqliteState | None = Field(default=SqliteState())
    postgres: PostgresState | None = Field(default=PostgresState())

    @model_validator(mode="after")
    def _has_block(self) -> Self:
        for name, block in {"Sqlite": self.sqlite, "Postgres": self.postgres}.items():
            if self.backend_type == name and block is None:
                raise ValueError(
                    f"state_backend.backend_type is {name}, but there is no state_backend.{name.lower()} block"
                )
        return self


class DynamicTablePostgres(PostgresServer):
    """Where dynamic tables with the Postgres backend live."""

    max_connections: int = Field(
        default=20,
        ge=1,
        description="Connections that one table uses at most for look-ups of more than `max_batch_size` values; one "
        "unless it is set.",
    )
    dt_schema_name: str = Field(default="streamling", description="Schema of the dynamic tables.")
    cache_enabled: bool = Field(default=False, description="Keep the tables' content in memory.")
    cache_refresh_debounce_ms: int = Field(default=1000, ge=0, description="Shortest time between two refreshes.")


class DynamicTableBackend(Section):
    """Dynamic tables."""

    postgres: DynamicTablePostgres = Field(default=DynamicTablePostgres())
    max_batch_size: int = Field(default=1000, ge=1, description="Rows per look-up or append.")


# ── handlers, scripts, plugins ──────────────────────────────────────────────────────────────────────────────


class HttpHandler(Section):
    """Handlers and webhooks."""

    trigger_max_count: int = Field(default=2000, ge=1, description="Rows per request at most.")
    operator_timeout_sec: float = Field(default=300, gt=0, description="Longest wait for one answer.")
    buffer_size: int = Field(default=25, ge=1, description="Requests under way at once, per instance of a node.")
    max_request_bytes: int = Field(
        default=64 * 1024 * 1024, ge=1, description="Longest request; a batch is cut accordingly."
    )
    max_response_bytes: int = Field(default=64 * 1024 * 1024, ge=1, description="Longest answer, also when unpacked.")
    max_response_values: int = Field(
        default=5_000_000, ge=1, description="JSON values (objects, arrays, fields) in an answer to a handler at most."
    )


class WasmScript(Section):
    """Script transform."""

    engine: Literal["quickjs", "v8"] = Field(
        default="quickjs", description="quickjs in WebAssembly, or the faster v8 (needs `streamling[v8]`)."
    )
    timeout_sec: float = Field(default=60, gt=0, description="Longest time for one batch.")
    memory_limit_mb: int = Field(default=64, ge=8, le=2048, description="Memory of one sandbox, in MiB.")
    runtime_wasm_file_path: values.LocalPath | None = Field(default=None, description="Runtime to use instead.")
    parallelism: int = Field(
        default=4,
        ge=1,
        description="`parallelism` of script nodes that have none; one unless it is set.",
    )
    batch_size: int = Field(default=0, ge=0, description="`batch_size` of script nodes that have none.")


class Plugin(Section):
    """Plugins, and the secrets meant for them: ``plugin.<name>.<key>``."""

    path: values.LocalPath | None = Field(default=None, description="Plugin file, or a folder of them.")
    channel_capacity: int = Field(
        default=50,
        ge=1,
        description="Batches that may wait in front of a plugin; unless it is set, as in front of other nodes.",
    )
    preprocessor_ids: values.Names = Field(default=(), description="Preprocessors to run, in order.")
    preprocessor_options: values.AnyMap = Field(
        default={}, description="Options of the preprocessors, by their ids; those under no id are given to all."
    )
    side_output_ids: values.Names = Field(default=(), description="Side outputs to attach to the sources.")
    side_output_options: values.AnyMap = Field(
        default={}, description="Options of the side outputs, by their ids; those under no id are given to all."
    )
    secrets: dict[str, dict[str, SecretStr]] = Field(
        default={},
        description="Secrets by plugin and key; also `plugin.<name>.<key>`, `…PLUGIN__<NAME>__<KEY>`.",
    )


# ── connectors ──────────────────────────────────────────────────────────────────────────────────────────────


class Kafka(Section):
    """Kafka brokers and schema registry."""

    brokers: str = Field(default="localhost:9092", description="Bootstrap servers, comma-separated.")
    security_protocol: values.SecurityProtocol = Field(default="plaintext", description="How to connect.")
    sasl_mechanism: values.SaslMechanism | None = Field(default=None, description="SASL mechanism.")
    sasl_username: SecretStr | None = Field(default=None, description="SASL user.")
    sasl_password: SecretStr | None = Field(default=None, description="SASL password.")
    ssl_ca_location: values.LocalPath | None = Field(
        default=None, description="PEM file with the certificates to trust; else those Java trusts."
    )
    ssl_certificate_location: values.LocalPath | None = Field(
        default=None, description="PEM file with the client's certificate, for brokers that ask for one."
    )
    ssl_key_location: values.LocalPath | None = Field(
        default=None, description="PEM file with its private key (PKCS#8)."
    )
    schema_registry_url: values.Url = Field(default="http://localhost:18081", description="Schema registry.")
    schema_registry_username: str | None = Field(default=None, description="Registry user.")
    schema_registry_password: SecretStr | None = Field(default=None, description="Registry password.")
    client_id: str | None = Field(default=None, description="Client id told to the brokers.")


class KafkaSource(Kafka):
    """Reading Kafka."""

    consumer_group_id: str | None = Field(
        default=None, description="Consumer group, with the node's name behind it; else the application id."
    )
    session_timeout_ms: int = Field(
        default=10000, ge=1000, description="An instance silent that long loses its partitions to the others."
    )
    lag_report_interval_ms: int = Field(default=60000, ge=1, description="Time between two lag reports.")
    consumer_fetch_timeout_sec: float = Field(default=60, gt=0, description="Longest wait for one fetch.")
    stall_watchdog_timeout_sec: float = Field(
        default=60,
        gt=0,
        json_schema_extra=no_effect("a broker that does not answer is logged and waited for"),
        description="No effect: a broker that does not answer is logged and waited for.",
    )


class KafkaSink(Kafka):
    """Writing Kafka."""


class ClickHouse(Section):
    """A ClickHouse server."""

    no_effect = "this version checks ClickHouse nodes, but cannot run them"

    url: values.Url = Field(default="http://localhost:8123", description="HTTP interface.")
    user: str = Field(default="default", description="User.")
    password: SecretStr = Field(default=_EMPTY, description="Password.")
    database: str = Field(default="default", description="Database.")


class ClickHouseSource(ClickHouse):
    """Reading ClickHouse."""

    page_size: int = Field(default=10_000_000, ge=1, description="Rows per page inside one dense key.")
    sort_key_range: int = Field(
        default=1_000_000,
        ge=100,
        validation_alias=AliasChoices("sort_key_range", "block_range"),
        description="Width of the key range read at once.",
    )
    query_timeout_sec: float = Field(default=60, gt=0, description="Longest time for one query.")


class ClickHouseSink(ClickHouse):
    """Writing ClickHouse."""

    compression: values.Compression = Field(default="zstd", description="Compression of what is sent.")
    compression_level: int = Field(default=6, ge=0, le=22, description="Its level; 9 is the most gzip knows.")
    batch_size: int = Field(default=100_000, ge=1, description="Rows per insert.")
    batch_flush_interval: Duration = Field(default=1.0, description="Longest wait for a full batch.")

    @model_validator(mode="after")
    def _level_fits(self) -> Self:
        if self.compression == "gzip" and self.compression_level > 9:
            raise ValueError(f"clickhouse_sink.compression_level is {self.compression_level}, expected 0 to 9 for gzip")
        return self


class PrintSink(Section):
    """Printing rows."""

    sample_every: int = Field(default=1, ge=1, description="Print every n-th row.")
    num_records_before_stop: int | None = Field(default=None, ge=1, description="Stop after that many rows.")


class PostgresConnection(Section):
    """Where a Postgres sink writes; what is left out comes from ``postgres_sink``."""

    host: str | None = Field(default=None, description="Server name or address.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Server port.")
    user: str | None = Field(default=None, description="User.")
    pass_: SecretStr | None = Field(default=None, alias="pass", description="Password.")
    db: str | None = Field(default=None, description="Database.")
    sslmode: values.SslMode | None = Field(default=None, description="TLS, with libpq's meaning.")
    sslrootcert: values.LocalPath | None = Field(default=None, description="Certificates to trust.")


class PostgresSink(Section):
    """Writing Postgres."""

    host: str = Field(default="127.0.0.1", description="Server name or address.")
    port: int = Field(default=5432, ge=1, le=65535, description="Server port.")
    user: str = Field(default="graph-node", description="User.")
    pass_: SecretStr = Field(default=_EMPTY, alias="pass", description="Password.")
    db: str = Field(default="postgres", description="Database.")
    sslmode: values.SslMode = Field(default="disable", description="TLS, with libpq's meaning.")
    sslrootcert: values.LocalPath | None = Field(
        default=None,
        description="Certificates to trust with verify-ca and verify-full; else libpq's own place.",
    )
    batch_flush_interval: Duration = Field(default=1.0, description="Longest wait for a full batch.")
    batch_size: int = Field(default=100, ge=1, description="Rows per write.")
    statement_timeout_secs: float = Field(default=60, ge=0, description="Longest statement; 0: no limit.")
    pool_acquire_timeout_secs: float = Field(default=30, gt=0, description="Longest wait for a connection.")
    pool_idle_timeout_secs: float = Field(default=600, gt=0, description="An idle connection is closed after this.")
    pool_max_lifetime_secs: float = Field(default=1800, gt=0, description="A connection is replaced after this.")


# ── telemetry ───────────────────────────────────────────────────────────────────────────────────────────────


class OpenTelemetryMetrics(Section):
    """Where metrics are pushed to."""

    ingestion_endpoint: values.OtlpEndpoint = Field(
        default=values.NOWHERE,
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
        return self.ingestion_endpoint != values.NOWHERE


class TestSettings(Section):
    """For tests of whole pipelines."""

    __test__ = False  # pytest would collect it by its name
    no_effect = "it belongs to the test suite of the original"

    telemetry_assertions_enabled: bool = Field(
        default=True,
        json_schema_extra={"environment": "STREAMLING_ENABLE_TELEMETRY_ASSERTIONS"},
        description="Check metrics too.",
    )
    prometheus_max_attempts: int = Field(
        default=30,
        ge=1,
        json_schema_extra={"environment": "STREAMLING_TEST_PROMETHEUS_MAX_ATTEMPTS"},
        description="Tries to find a metric.",
    )
    prometheus_sleep_ms: int = Field(
        default=500,
        ge=0,
        json_schema_extra={"environment": "STREAMLING_TEST_PROMETHEUS_SLEEP_MS"},
        description="Pause between them.",
    )


# ── runtime ─────────────────────────────────────────────────────────────────────────────────────────────────


class Spark(Section):
    """The Spark underneath."""

    master: str = Field(default="local[*]", description="Spark master: this machine, or any cluster.")
    conf: values.PlainMap = Field(default={}, description="Spark settings; in the environment `k=v,k=v` or JSON.")
    environment: values.Names = Field(
        default=(),
        description="Environment variables that Spark's processes see besides those they need; `AWS_*` names several.",
    )


class Network(Section):
    """What handlers and webhooks may reach."""

    deny_private: bool = Field(
        default=False, description="Refuse private, loopback, link-local and metadata addresses."
    )


class LiveDataInspect(Section):
    """Rows shown per node."""

    no_effect = "this version has no admin API"

    records_per_topology_node: int = Field(default=15, ge=1, description="Rows kept per node.")
    refresh_in_secs: float = Field(default=30, gt=0, description="Length of the window those rows come from.")
