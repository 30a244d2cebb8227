"""The proof for every key of the configuration that does something."""

from __future__ import annotations

import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from streamling.connectors.clickhouse.config import ClickHouseConfig
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.clickhouse.sink import ClickHouseSink, ClickHouseSinkOptions
from streamling.connectors.http.payload import Payload
from streamling.connectors.http.webhook import WebhookSinkOptions
from streamling.connectors.kafka.batch_options import BatchSize
from streamling.connectors.kafka.group.source import group_of
from streamling.connectors.kafka.registry import SchemaRegistry
from streamling.connectors.kafka.settings import client_settings
from streamling.connectors.kafka.source import KafkaSource
from streamling.connectors.kafka.source_options import KafkaSourceOptions
from streamling.connectors.postgres.sink import PostgresSinkOptions
from streamling.connectors.postgres.state import PostgresStateStore
from streamling.connectors.postgres.table import TableName
from streamling.connectors.postgres.writer import Writer, batching
from streamling.engine.launch.launcher import Launcher
from streamling.engine.run.contexts import NodeStateView
from streamling.engine.state.memory import MemoryState
from streamling.engine.state.store import state_store
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.network.policy import ANY_ADDRESS
from streamling.observe.observer import RunObserver
from streamling.observe.telemetry.metrics import MetricStore
from streamling.pipeline.config import AppConfig
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.plugins.registry import Registry
from streamling.plugins.shared import SharedResources
from streamling.transforms.dynamic_table.backends import create_store
from streamling.transforms.dynamic_table.transform import DynamicTableTransformOptions
from streamling.transforms.script.transform import engine_for, limits_of
from tests.effects.proofs import ROOT, By, Observed
from tests.harness.pipelines import new_run
from tests.observe.clock import ManualClock

PEM = str(ROOT / "tests" / "effects" / "__init__.py")  # any file that can be read
_SCRIPT = """
sources: {rows: {type: file, path: x, format: csv, primary_key: id}}
transforms: {s: {type: script, from: rows, primary_key: id, language: js, script: "r => r"}}
sinks: {out: {type: print, from: s}}
"""


def node_context(config: AppConfig, options: Any, name: str = "out") -> NodeContext[Any]:
    state = NodeStateView(MemoryState(), name, ())
    return NodeContext(name=name, options=options, config=config, state=state, metrics=NoopMetrics())


# ── what is made of the configuration ───────────────────────────────────────────────────────────────────────


def state_file(config: AppConfig) -> object:
    """Who writes what where."""
    with state_store(config).open() as state:
        state.put("k", 1)
    path = config.state_backend.sqlite.database_path  # type: ignore[union-attr]
    if not path.exists():
        return None
    with sqlite3.connect(path) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
        table = config.state_backend.sqlite.state_table_name  # type: ignore[union-attr]
        return path.name, tables, file.execute(f"SELECT namespace, key FROM {table} ORDER BY 1, 2").fetchall()


def state_server(config: AppConfig) -> object:
    settings = config.state_backend.postgres
    assert settings is not None
    budget, shared = config.shutdown_budget_secs, SharedResources()
    made = PostgresStateStore(config.application_id, settings, shutdown_budget=budget, shared=shared)
    return made.server, made.location, made.timeout


def table_server(config: AppConfig) -> object:
    fields = {"type": "dynamic_table", "backend_type": "Postgres", "backend_entity_name": "t", "time_column": "at"}
    store: Any = create_store(node_context(config, DynamicTableTransformOptions.model_validate(fields)))
    inner = getattr(store, "store", store)
    return inner.server, inner.layout, inner.chunk, inner.cached, len(inner.readers), vars(store).get("debounce")


def postgres_sink(config: AppConfig) -> object:
    options = PostgresSinkOptions.model_validate({"type": "postgres", "from": "x", "table": "t", "schema": "s"})
    context = node_context(config, options)
    writer = Writer(context, TableName("s", "t"))
    session = writer.session
    times = (session.connect_timeout, session.time_limit, session.idle_timeout, session.lifetime)
    return session.server, times, writer.statement_timeout_ms, batching(context)


def clickhouse_source(config: AppConfig) -> object:
    return ClickHouseServer.of(config.part(ClickHouseConfig).clickhouse_source, "clickhouse_source", ANY_ADDRESS)


def clickhouse_sink(config: AppConfig) -> object:
    fields = {"type": "clickhouse", "from": "x", "table": "t", "primary_key": "id"}
    context = replace(
        node_context(config, ClickHouseSinkOptions.model_validate(fields)),
        primary_key=("id",),
        input_schema=pa.schema({"id": pa.int64()}),
    )
    sink = ClickHouseSink(context)
    return sink.batching(), sink.writer.compression, sink.writer.client.server


def kafka_source(config: AppConfig) -> object:
    return client_settings(config.kafka_source, "kafka_source"), _registry(config.kafka_source)


def kafka_sink(config: AppConfig) -> object:
    return client_settings(config.kafka_sink, "kafka_sink"), _registry(config.kafka_sink)


def _registry(section: Any) -> object:
    made = SchemaRegistry.of(section, "kafka", ANY_ADDRESS)
    return made.url, made.headers


def kafka_pace(config: AppConfig) -> object:
    return BatchSize.of(node_context(config, KafkaSourceOptions.model_validate({"type": "kafka", "topic": "t"})), 2)


def kafka_group(config: AppConfig) -> object:
    return group_of(
        node_context(config, KafkaSourceOptions.model_validate({"type": "kafka", "topic": "t"}))
    ).session_timeout


def kafka_reader(config: AppConfig) -> object:
    fields = {"type": "kafka", "topic": "t", "data_format": "json", "schema": {"id": "int64"}}
    source = KafkaSource(node_context(config, KafkaSourceOptions.model_validate(fields)))
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    return {**source.reader_options(session), "kafka.group.id": None}  # another one for every reader


def parsed(config: AppConfig) -> object:
    """What is said about a pipeline without end whose sink has no key."""
    text = "sources: {rows: {type: file, path: x, format: csv}}\nsinks: {out: {type: print, from: rows}}"
    try:
        parse_pipeline(text, registry=Registry.builtin(), config=config)
    except InvalidPipeline as error:
        return str(error)
    return None


def pipeline_with_secret(config: AppConfig) -> object:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pipeline.yaml")
        file.write_text(_SCRIPT.replace("path: x", 'path: "${secret:OUT}"'))
        try:
            options: Any = Launcher.of(config, env={}).pipeline(str(file))["rows"].options
        except StreamlingError:
            return None
        return options.path


def request_limits(config: AppConfig) -> object:
    options = WebhookSinkOptions.model_validate({"type": "webhook", "from": "x", "url": "http://x"})
    payload, batch = Payload.of(options, config.external_http_handler), pa.record_batch({"id": list(range(3000))})
    try:
        return [body.stop - body.start for body in payload.bodies(batch)]
    except Exception as error:
        return str(error)


def script_node(config: AppConfig) -> object:
    options: Any = parse_pipeline(_SCRIPT, registry=Registry.builtin()).with_config_defaults(config)["s"].options
    return options.instance_count, options.rows_per_batch, options.flush_interval


def queues(config: AppConfig) -> object:
    pipeline = parse_pipeline(_SCRIPT, registry=Registry.builtin())
    run = new_run(pipeline, config=config)
    return run.node_declarations.queue_length(pipeline["s"])


def script_engine(config: AppConfig) -> object:
    return type(engine_for(config.wasm_script))


def script_limits(config: AppConfig) -> object:
    return limits_of(config.wasm_script)


_SASL = {"security_protocol": "sasl_plaintext", "sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}
_SSL = {"security_protocol": "ssl", "ssl_certificate_location": PEM, "ssl_key_location": PEM}


def _kafka(section: str, observe: Any) -> dict[str, Observed | By]:
    sasl = {f"{section}.{name}": value for name, value in _SASL.items()}
    ssl = {f"{section}.{name}": value for name, value in _SSL.items()}
    certificates = By(
        "tests/connectors/kafka/test_settings.py::test_certificates_are_passed_as_text"
    )  # the settings of both sections
    return {
        f"{section}.brokers": Observed(observe, "other:9092"),
        f"{section}.security_protocol": Observed(observe, "ssl"),
        f"{section}.sasl_mechanism": Observed(observe, "SCRAM-SHA-512", sasl),
        f"{section}.sasl_username": Observed(observe, "other", sasl),
        f"{section}.sasl_password": Observed(observe, "other", sasl),
        f"{section}.ssl_ca_location": Observed(observe, PEM, ssl),
        f"{section}.ssl_certificate_location": certificates,
        f"{section}.ssl_key_location": certificates,
        f"{section}.schema_registry_url": Observed(observe, "http://other:1"),
        f"{section}.schema_registry_username": Observed(observe, "other"),
        f"{section}.schema_registry_password": Observed(observe, "other"),
        f"{section}.client_id": Observed(observe, "other"),
    }


def _server(section: str, observe: Any, password: str = "password") -> dict[str, Observed | By]:
    return {
        f"{section}.host": Observed(observe, "other"),
        f"{section}.port": Observed(observe, 1),
        f"{section}.db": Observed(observe, "other"),
        f"{section}.user": Observed(observe, "other"),
        f"{section}.{password}": Observed(observe, "other"),
        f"{section}.sslmode": Observed(observe, "verify-full"),
        f"{section}.sslrootcert": Observed(observe, PEM),
    }


def _observer(config: AppConfig) -> tuple[RunObserver, MetricStore, ManualClock]:
    registry, store, clock = Registry.builtin(), MetricStore(), ManualClock()
    return RunObserver(parse_pipeline(_SCRIPT, registry=registry), config, registry, store, now=clock), store, clock


def backpressure_events(config: AppConfig) -> object:
    """How many of three waits, of 50, 200 and 1000 ms, are events."""
    observer, store, clock = _observer(config)
    for seconds in (0.05, 0.2, 1.0):
        with observer.activities["rows"].waiting("blocked", "s"):
            clock.advance(seconds)
    return store.value("node_backpressure_events", "rows", execution_kind="native")


def rows_wanted(config: AppConfig) -> object:
    """How many rows are wanted at first, and two seconds after five have been taken."""
    observer, _, clock = _observer(config)
    rows = observer.live_rows.of("rows")
    assert rows is not None
    before = rows.wanted(in_python=True), rows.wanted(in_python=False)
    rows.offer(pa.record_batch({"id": [1, 2, 3, 4, 5]}))
    clock.advance(2)
    return before, rows.wanted(in_python=True)


_OTLP, _RUN, _HANDLER = (
    "tests/observe/telemetry/test_otlp.py",
    "tests/engine/run/test_run.py",
    "tests/connectors/http/test_handler.py",
)
_KNOBS = "tests/effects/test_knobs.py"
_ACCESS, _SERVE_API = "tests/serve/test_access.py", "tests/serve/test_api.py"
_ADMIN, _OBSERVING, _TRACES = (
    "tests/serve/admin/test_server.py",
    "tests/cli/test_observing.py",
    "tests/observe/test_traces.py",
)

PROOFS: dict[str, Observed | By] = {
    "application_id": Observed(state_file, "other"),
    "log_format": By("tests/cli/test_run.py::test_run_with_the_file_from_the_configuration_resumes"),
    "log_level": By("tests/cli/test_run.py::test_the_written_project_runs_and_a_higher_log_level_logs_less"),
    "pipeline_definition_location": By("tests/cli/test_main.py::test_config_names_another_file"),
    "record_batch_interval_ms": Observed(kafka_pace, 250),
    "record_batch_size": Observed(kafka_pace, 5000),
    "internal_buffer_size": By("tests/effects/test_knobs.py::test_so_many_batches_wait_in_front_of_a_node"),
    "num_records_before_stop": By(
        "tests/engine/dataflow/test_sql_flows.py::test_a_record_limit_counts_rows_that_spark_writes"
    ),
    "checkpoint_interval_sec": By(f"{_KNOBS}::test_positions_are_stored_every_checkpoint_interval_sec"),
    "checkpoint_timeout_sec": By(f"{_RUN}::test_a_sink_that_never_acknowledges_fails_the_epoch_and_the_pipeline"),
    "startup_timeout_sec": By(
        "tests/connectors/postgres/test_connection_errors.py::test_a_server_that_does_not_start_is_retried_as_long_as_configured"
    ),
    "enforce_primary_keys": Observed(parsed, True),
    "job_mode": Observed(parsed, True),
    "drain_policy": By(f"{_RUN}::test_a_fast_exit_leaves_the_tail_for_the_next_start"),
    "shutdown_budget_secs": By(f"{_RUN}::test_a_final_checkpoint_that_is_late_names_who_it_waits_for"),
    "backpressure_event_threshold_ms": Observed(backpressure_events, 500),
    "preview_tolerant_mode": By(f"{_OBSERVING}::test_in_preview_tolerant_mode_a_failed_run_stays_and_shows_its_error"),
    "live_data_inspect_enabled": Observed(rows_wanted, True),
    "live_data_inspect.records_per_topology_node": Observed(rows_wanted, 3),
    "live_data_inspect.refresh_in_secs": Observed(rows_wanted, 1),
    "admin_api_enabled": By(f"{_ADMIN}::test_nothing_is_served_with_admin_api_enabled_false"),
    "admin_api_host": By(f"{_ADMIN}::test_it_listens_on_loopback_unless_admin_api_host_says_otherwise"),
    "admin_api_port": By(f"{_ADMIN}::test_a_second_run_takes_another_port_unless_admin_api_port_is_set"),
    "admin_api_token": By(f"{_ADMIN}::test_with_admin_api_token_requests_need_it"),
    "open_telemetry_traces.ingestion_endpoint": By(
        f"{_TRACES}::test_a_failed_epoch_has_an_error_that_names_who_is_missing"
    ),
    "open_telemetry_traces.endpoint_protocol": By(f"{_TRACES}::test_an_epoch_is_a_trace_across_source_nodes_and_sinks"),
    "open_telemetry_traces.batch_interval_secs": By(
        f"{_TRACES}::test_no_trace_is_pushed_before_its_interval_has_passed"
    ),
    "pod_name": By(f"{_OTLP}::test_everything_measured_arrives_in_every_protocol"),
    "http_secret_header.<name>": By(
        f"{_HANDLER}::test_a_request_is_a_json_post_with_the_headers_of_the_node_and_its_secret"
    ),
    "http_secret_value.<name>": By(
        f"{_HANDLER}::test_a_request_is_a_json_post_with_the_headers_of_the_node_and_its_secret"
    ),
    "network.deny_private": By(f"{_KNOBS}::test_private_addresses_are_refused_when_deny_private_is_on"),
    "network.allow": By("tests/connectors/file/test_s3.py::test_a_server_at_a_private_address_is_denied"),
    "network.credential_hosts": By(
        "tests/connectors/http/test_options.py::test_the_header_of_a_secret_goes_to_allowed_hosts_only"
    ),
    "spark.master": By("tests/cluster/test_matrix.py::test_operators_of_a_plugin_file_run_on_the_executors"),
    "spark.conf.<name>": By(f"{_KNOBS}::test_spark_starts_with_its_settings"),
    "spark.environment": By(f"{_KNOBS}::test_an_environment_variable_that_is_named_reaches_the_workers_of_spark"),
    "secrets.<name>": Observed(pipeline_with_secret, "x"),
    "secret_store.path": By("tests/cli/test_secret.py::test_the_path_is_a_setting"),
    "secret_store.key": By("tests/pipeline/secrets/test_store.py::test_the_key_may_be_a_setting"),
    "secret_store.key_file": By("tests/cli/test_secret.py::test_the_path_is_a_setting"),
    "serve.listen": By(f"{_ACCESS}::test_an_address_that_others_reach_requires_a_token"),
    "serve.dir": By("tests/serve/test_server.py::test_a_folder_crashes_of_parts_and_kills_of_the_server"),
    "serve.hosts": By("tests/serve/test_server.py::test_a_host_that_the_operator_lists_is_accepted"),
    "serve.variables": By(f"{_SERVE_API}::test_definitions_use_variables_that_the_operator_allows"),
    "serve.requests_per_minute": By(f"{_ACCESS}::test_requests_are_limited_per_name"),
    "serve.concurrent_slow_requests": By(
        "tests/serve/attacks/test_slow_calls.py::test_90_hanging_checkpoints_and_validations_of_one_token_delay_no_other"
    ),
    "serve.tokens.<name>.value": By(f"{_ACCESS}::test_a_token_is_given_in_one_of_three_ways"),
    "serve.tokens.<name>.file": By(f"{_ACCESS}::test_a_token_is_given_in_one_of_three_ways"),
    "serve.tokens.<name>.sha256": By(f"{_ACCESS}::test_a_token_is_given_in_one_of_three_ways"),
    "serve.tokens.<name>.role": By(f"{_SERVE_API}::test_roles_limit_what_a_token_may_do"),
    "serve.tokens.<name>.namespaces": By(f"{_SERVE_API}::test_a_foreign_namespace_looks_as_if_it_did_not_exist"),
    "cache_dir": By("tests/cli/test_doctor.py::test_a_missing_requirement_is_reported_with_exit_code_1"),
    "state_backend.backend_type": Observed(state_file, "InMemory"),
    "state_backend.sqlite.database_path": Observed(state_file, "other.db"),
    "state_backend.sqlite.state_table_name": Observed(state_file, "other"),
    **_server("state_backend.postgres", state_server),
    "state_backend.postgres.state_schema_name": Observed(state_server, "other"),
    "state_backend.postgres.state_table_name": Observed(state_server, "other"),
    "state_backend.postgres.acquire_timeout_secs": Observed(state_server, 7),
    **_server("dynamic_table_backend.postgres", table_server),
    "dynamic_table_backend.postgres.max_connections": By(
        "tests/connectors/postgres/test_dynamic_table.py::test_look_ups_of_many_values_use_the_connections_allowed"
    ),
    "dynamic_table_backend.postgres.dt_schema_name": Observed(table_server, "other"),
    "dynamic_table_backend.postgres.cache_enabled": Observed(table_server, True),
    "dynamic_table_backend.postgres.cache_refresh_debounce_ms": Observed(
        table_server, 7, {"dynamic_table_backend.postgres.cache_enabled": True}
    ),
    "dynamic_table_backend.max_batch_size": Observed(table_server, 7),
    "external_http_handler.trigger_max_count": Observed(request_limits, 100),
    "external_http_handler.operator_timeout_sec": By(f"{_HANDLER}::test_a_request_that_times_out_is_retried"),
    "external_http_handler.buffer_size": By(f"{_HANDLER}::test_no_more_requests_are_in_flight_than_configured"),
    "external_http_handler.max_request_bytes": Observed(request_limits, 200),
    "external_http_handler.max_response_values": By(f"{_HANDLER}::test_a_response_with_too_many_values_is_an_error"),
    "external_http_handler.max_response_bytes": By(f"{_HANDLER}::test_a_response_over_the_size_limit_is_an_error"),
    "wasm_script.engine": Observed(script_engine, "v8"),
    "wasm_script.timeout_sec": Observed(script_limits, 7),
    "wasm_script.memory_limit_mb": Observed(script_limits, 77),
    "wasm_script.runtime_wasm_file_path": By(
        "tests/transforms/script/test_quickjs.py::test_an_invalid_runtime_is_rejected"
    ),
    "wasm_script.parallelism": Observed(script_node, 3),
    "wasm_script.batch_size": Observed(script_node, 50),
    "plugin.path": By("tests/cli/test_plugins.py::test_a_plugin_file_is_shown_as_the_origin"),
    "plugin.channel_capacity": By("tests/effects/test_knobs.py::test_so_many_batches_wait_in_front_of_a_node"),
    "plugin.preprocessor_ids": By(
        "tests/plugins/test_preprocessor.py::test_they_run_in_the_order_of_the_configuration"
    ),
    "plugin.preprocessor_options.<name>": By("tests/plugins/test_preprocessor.py::test_options_are_keyed_by_the_id"),
    "plugin.side_output_ids": By(
        "tests/plugins/test_side_outputs.py::test_the_configuration_attaches_it_to_every_source"
    ),
    "plugin.side_output_options.<name>": By("tests/plugins/test_side_outputs.py::test_options_are_keyed_by_the_id"),
    "plugin.secrets.<name>": By("tests/pipeline/config/test_load.py::test_secrets_of_plugins_are_kept_for_them"),
    **_kafka("kafka_source", kafka_source),
    "kafka_source.consumer_group_id": By(
        "tests/connectors/kafka/test_source_outages.py::test_offsets_are_committed_to_the_group"
    ),
    "kafka_source.session_timeout_ms": Observed(kafka_group, 7000),
    "kafka_source.lag_report_interval_ms": By(
        "tests/connectors/kafka/test_source_instances.py::test_only_the_owner_of_a_partition_reports_its_lag"
    ),
    "kafka_source.consumer_fetch_timeout_sec": Observed(kafka_reader, 7),
    **_kafka("kafka_sink", kafka_sink),
    "print_sink.sample_every": By(
        "tests/connectors/test_print.py::test_the_configuration_has_the_defaults_of_the_node"
    ),
    "print_sink.num_records_before_stop": By(
        "tests/connectors/test_print.py::test_the_configuration_has_the_defaults_of_the_node"
    ),
    **_server("postgres_sink", postgres_sink, "pass"),
    "postgres_sink.batch_flush_interval": Observed(postgres_sink, "7s"),
    "postgres_sink.batch_size": Observed(postgres_sink, 7),
    "postgres_sink.statement_timeout_secs": Observed(postgres_sink, 7),
    "postgres_sink.pool_acquire_timeout_secs": Observed(postgres_sink, 7),
    "postgres_sink.pool_idle_timeout_secs": Observed(postgres_sink, 7),
    "postgres_sink.pool_max_lifetime_secs": Observed(postgres_sink, 7),
    "clickhouse_source.url": Observed(clickhouse_source, "http://other:1"),
    "clickhouse_source.user": Observed(clickhouse_source, "other"),
    "clickhouse_source.password": Observed(clickhouse_source, "other"),
    "clickhouse_source.database": Observed(clickhouse_source, "other"),
    "clickhouse_source.ssl_ca_location": Observed(clickhouse_source, PEM),
    "clickhouse_source.page_size": By(
        "tests/connectors/clickhouse/test_source.py::test_pages_have_at_most_page_size_rows"
    ),
    "clickhouse_source.sort_key_range": By(
        "tests/connectors/clickhouse/test_source.py::test_the_first_query_counts_as_many_keys_as_sort_key_range_says"
    ),
    "clickhouse_source.query_timeout_sec": By(
        "tests/connectors/clickhouse/test_source_outages.py::test_query_timeout_sec_ends_a_query_on_the_server"
    ),
    "clickhouse_sink.url": Observed(clickhouse_sink, "http://other:1"),
    "clickhouse_sink.user": Observed(clickhouse_sink, "other"),
    "clickhouse_sink.password": Observed(clickhouse_sink, "other"),
    "clickhouse_sink.database": Observed(clickhouse_sink, "other"),
    "clickhouse_sink.ssl_ca_location": Observed(clickhouse_sink, PEM),
    "clickhouse_sink.compression": Observed(clickhouse_sink, "gzip"),
    "clickhouse_sink.compression_level": Observed(clickhouse_sink, 7),
    "clickhouse_sink.batch_size": Observed(clickhouse_sink, 7),
    "clickhouse_sink.batch_flush_interval": Observed(clickhouse_sink, "7s"),
    **_server("postgres_sink_connections.<name>", postgres_sink, "pass"),
    "open_telemetry_metrics.ingestion_endpoint": By(
        "tests/observe/telemetry/test_reporting.py::test_metrics_go_to_the_endpoint_and_into_the_file"
    ),
    "open_telemetry_metrics.endpoint_protocol": By(f"{_OTLP}::test_everything_measured_arrives_in_every_protocol"),
    "open_telemetry_metrics.batch_interval_secs": By(
        "tests/cli/test_metrics.py::test_differences_of_all_pushes_add_up_to_the_total"
    ),
    "open_telemetry_metrics.global_tags": By(
        "tests/cli/test_metrics.py::test_series_of_a_node_have_its_identity_its_labels_and_the_global_tags"
    ),
    "open_telemetry_metrics.metric_deny_list": By(f"{_OTLP}::test_differences_can_be_denied"),
}


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Values by dotted path as the tree that a configuration file holds; ``<name>`` is the sink ``out``."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *sections, last = path.replace("<name>", "out").split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = str(value) if isinstance(value, Path) else value
    return tree
