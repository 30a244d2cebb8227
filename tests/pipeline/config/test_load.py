from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamling.errors import InvalidPipeline
from streamling.pipeline.config import AppConfig, load_config


class Case:
    """A working directory with a configuration file, and an environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env: dict[str, str] = {"HOME": str(folder / "home")}

    def write(self, text: str, name: str = "config.yaml") -> None:
        (self.folder / name).write_text(text)

    def set(self, **variables: str) -> None:
        self.env |= {f"STREAMLING__{name}": value for name, value in variables.items()}

    def load(self, name: str = "config") -> AppConfig:
        return load_config(name, cwd=self.folder, env=self.env)

    def problems(self) -> list[str]:
        with pytest.raises(InvalidPipeline) as raised:
            self.load()
        return [str(problem) for problem in raised.value.problems]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """The logged warnings of the configuration."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("streamling.config")
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


# ── layers ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_environment_overrides_the_file_and_the_file_the_defaults(case: Case) -> None:
    case.write("record_batch_size: 2\ncheckpoint_interval_sec: 2\n")
    case.set(RECORD_BATCH_SIZE="3")
    config = case.load()

    assert config.record_batch_size == 3
    assert config.checkpoint_interval_sec == 2
    assert config.internal_buffer_size == 2


def test_layers_replace_single_values_of_a_section(case: Case) -> None:
    case.write("kafka_source: {brokers: 'a:1', client_id: me}\n")
    case.set(KAFKA_SOURCE__BROKERS="b:2")
    source = case.load().kafka_source

    assert (source.brokers, source.client_id, source.security_protocol) == ("b:2", "me", "plaintext")


def test_a_missing_default_file_is_fine(case: Case) -> None:
    assert case.load().application_id == "local_app_v1"


def test_a_missing_named_file_is_an_error(case: Case) -> None:
    with pytest.raises(InvalidPipeline, match=r"prod\.yaml or prod\.yml does not exist"):
        case.load("prod")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("config.yml", "config"),
        ("prod.yaml", "prod"),
        ("prod.yaml", "prod.yaml"),
        ("prod.v2.yml", "prod.v2"),
    ],
)
def test_a_file_is_found_with_and_without_its_extension(case: Case, file: str, name: str) -> None:
    case.write("application_id: found\n", file)

    assert case.load(name).application_id == "found"


def test_an_absolute_path_is_fine(case: Case) -> None:
    case.write("application_id: found\n", "other.yaml")

    assert load_config(str(case.folder / "other.yaml"), cwd=Path("/"), env=case.env).application_id == "found"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_changes_nothing(case: Case, text: str) -> None:
    case.write(text)

    assert case.load().record_batch_size == 1000


def test_an_empty_entry_leaves_the_default(case: Case) -> None:
    case.write("record_batch_size:\nkafka_source:\nspark: {master: }\n")
    config = case.load()

    assert config.record_batch_size == 1000
    assert config.spark.master == "local[*]"


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_text_is_taken_as_written(case: Case) -> None:
    case.write("application_id: 0123\nstate_backend: {postgres: {password: 007, user: yes, db: 1e3}}\n")
    config = case.load()

    assert config.application_id == "0123"
    assert config.state_backend.postgres is not None
    assert config.state_backend.postgres.password.get_secret_value() == "007"
    assert (config.state_backend.postgres.user, config.state_backend.postgres.db) == ("yes", "1e3")


@pytest.mark.parametrize("written", ["true", "True", "1", "yes", "on"])
def test_switches_have_many_spellings(case: Case, written: str) -> None:
    case.set(JOB_MODE=written)

    assert case.load().job_mode is True


@pytest.mark.parametrize("written", ["InMemory", "inmemory", "INMEMORY"])
def test_choices_do_not_depend_on_case(case: Case, written: str) -> None:
    case.set(STATE_BACKEND__BACKEND_TYPE=written)

    assert case.load().state_backend.backend_type == "InMemory"


def test_choices_take_either_dash(case: Case) -> None:
    case.set(POSTGRES_SINK__SSLMODE="VERIFY_FULL", KAFKA_SOURCE__SECURITY_PROTOCOL="SASL_SSL")
    config = case.load()

    assert config.postgres_sink.sslmode == "verify-full"
    assert config.kafka_source.security_protocol == "sasl_ssl"


def test_durations_carry_their_unit(case: Case) -> None:
    case.set(POSTGRES_SINK__BATCH_FLUSH_INTERVAL="500ms")

    assert case.load().postgres_sink.batch_flush_interval == 0.5


def test_lists_are_lists_or_comma_separated(case: Case) -> None:
    case.write("plugin: {preprocessor_ids: [a, b], side_output_ids: 'c, d'}\n")
    case.set(OPEN_TELEMETRY_METRICS__METRIC_DENY_LIST="x,y")
    config = case.load()

    assert config.plugin.preprocessor_ids == ("a", "b")
    assert config.plugin.side_output_ids == ("c", "d")
    assert config.open_telemetry_metrics.metric_deny_list == ("x", "y")


def test_the_old_name_of_a_setting_works_in_both_layers(case: Case) -> None:
    case.write("clickhouse_source: {block_range: 500}\n")
    assert case.load().clickhouse_source.sort_key_range == 500

    case.set(CLICKHOUSE_SOURCE__BLOCK_RANGE="600")
    assert case.load().clickhouse_source.sort_key_range == 600


def test_an_empty_variable_does_not_set_a_number(case: Case) -> None:
    case.write("record_batch_size: 5\n")
    case.set(RECORD_BATCH_SIZE="", NUM_RECORDS_BEFORE_STOP="")
    config = case.load()

    assert config.record_batch_size == 5
    assert config.num_records_before_stop is None


def test_an_empty_variable_is_an_empty_text(case: Case) -> None:
    case.write("kafka_source: {brokers: 'a:1'}\n")
    case.set(KAFKA_SOURCE__BROKERS="")

    assert case.load().kafka_source.brokers == ""


def test_variables_of_other_systems_are_read(case: Case) -> None:
    case.set(OPEN_TELEMETRY_METRICS__INGESTION_ENDPOINT="http://ours")
    case.env |= {
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://theirs",
        "RUST_LOG": "debug",
        "POD_NAME": "pod-1",
        "STREAMLING_ENABLE_TELEMETRY_ASSERTIONS": "false",
    }
    config = case.load()

    assert config.open_telemetry_metrics.ingestion_endpoint == "http://theirs"
    assert (config.log_level, config.pod_name) == ("debug", "pod-1")
    assert config.test_settings.telemetry_assertions_enabled is False


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", "http/protobuf"),
        ("HttpBinary", "http/protobuf"),
        ("HTTP/Protobuf", "http/protobuf"),
        ("HttpJson", "http/json"),
        ("GRPC", "grpc"),
    ],
)
def test_the_protocol_of_metrics_has_several_spellings(case: Case, written: str, meant: str) -> None:
    case.write(f"open_telemetry_metrics: {{endpoint_protocol: '{written}'}}\n")

    assert case.load().open_telemetry_metrics.endpoint_protocol == meant


@pytest.mark.parametrize("endpoint", ["none", "None", "''"])
def test_metrics_are_pushed_when_there_is_an_endpoint(case: Case, endpoint: str) -> None:
    case.write(f"open_telemetry_metrics: {{ingestion_endpoint: {endpoint}}}\n")
    assert not case.load().open_telemetry_metrics.pushes

    case.set(OPEN_TELEMETRY_METRICS__INGESTION_ENDPOINT="http://collector:4318/v1/metrics")
    assert case.load().open_telemetry_metrics.pushes


def test_a_global_tag_ends_at_a_comma_and_its_key_at_the_first_colon(case: Case) -> None:
    case.set(OPEN_TELEMETRY_METRICS__GLOBAL_TAGS="environment: production ,image:app:v1,,empty:")

    assert case.load().open_telemetry_metrics.tags == {"environment": "production", "image": "app:v1", "empty": ""}


def test_settings_of_metrics_are_checked_at_the_start_and_no_token_is_shown(case: Case) -> None:
    case.write("open_telemetry_metrics: {endpoint_protocol: udp, global_tags: 'a:b,c'}\n")
    case.env["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"] = "collector:4317?token=hunter2"

    assert case.problems() == [
        "the environment variable OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is not an http or https address "
        "(write it as https://host/path)",
        "config.yaml:1:45: open_telemetry_metrics.endpoint_protocol is 'udp', "
        "expected one of http/protobuf, http/json, grpc",
        "config.yaml:1:64: open_telemetry_metrics.global_tags contains 'c', which is not a tag "
        "(write tags as key:value, separated by commas)",
    ]


# ── maps ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_http_secrets_are_maps(case: Case) -> None:
    case.write("http_secret_header: {enrich: X-Api-Key}\n")
    case.set(HTTP_SECRET_VALUE__ENRICH="hunter2", HTTP_SECRET_HEADER__MY__KEY="X-Other")
    config = case.load()

    assert config.http_secret_header == {"enrich": "X-Api-Key", "my__key": "X-Other"}
    assert config.http_secret_value["enrich"].get_secret_value() == "hunter2"


def test_a_sink_may_have_its_own_postgres(case: Case) -> None:
    case.write("postgres_sink: {user: all, port: 1}\npostgres_sink_connections: {orders_sink: {host: a, user: one}}\n")
    case.set(POSTGRES_SINK_CONNECTIONS__ORDERS_SINK__PASS="hunter2", POSTGRES_SINK_CONNECTIONS__ORDERS_SINK__HOST="b")
    config = case.load()
    own, other = config.postgres_connection("Orders--sink!"), config.postgres_connection("other")

    assert (own.host, own.user, own.port, own.pass_.get_secret_value()) == ("b", "one", 1, "hunter2")
    assert (other.host, other.user) == ("127.0.0.1", "all")


@pytest.mark.parametrize(
    "text", ["spark.ui.enabled=true, spark.a=b=c", '{"spark.ui.enabled": "true", "spark.a": "b=c"}']
)
def test_spark_settings_come_as_one_variable(case: Case, text: str) -> None:
    case.write("spark: {conf: {spark.a: x, spark.b: 2}}\n")
    case.set(SPARK__CONF=text)

    assert case.load().spark.conf == {"spark.a": "b=c", "spark.b": "2", "spark.ui.enabled": "true"}


def test_spark_settings_come_as_variables_of_their_own(case: Case) -> None:
    case.env |= {
        "STREAMLING__SPARK__CONF__SPARK_UI_ENABLED": "true",
        "STREAMLING__SPARK__CONF__spark.sql.shuffle.partitions": "4",
        "STREAMLING__SPARK__CONF__spark.locality.wait.rackLocal": "1s",
    }

    assert case.load().spark.conf == {
        "spark.locality.wait.rackLocal": "1s",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "true",
    }


def test_options_of_preprocessors_are_nested(case: Case) -> None:
    case.write("plugin: {preprocessor_options: {mine: {a: 1, deep: {b: [x]}}}}\n")
    case.set(PLUGIN__PREPROCESSOR_OPTIONS__MINE__C="2")

    assert case.load().plugin.preprocessor_options == {"mine": {"a": 1, "deep": {"b": ["x"]}, "c": "2"}}


def test_secrets_of_plugins_are_kept_for_them(case: Case, warned: list[str]) -> None:
    case.write("plugin: {s3_sink: {region: eu}}\n")
    case.set(PLUGIN__S3_SINK__ACCESS_KEY="hunter2")
    secrets = case.load().plugin.secrets

    assert {key: value.get_secret_value() for key, value in secrets["s3_sink"].items()} == {
        "region": "eu",
        "access_key": "hunter2",
    }
    assert warned == []


# ── paths ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_relative_paths_start_at_the_working_directory(case: Case) -> None:
    case.write("plugin: {path: plugins}\ncache_dir: cache\n")
    config = case.load()

    assert config.plugin.path == case.folder / "plugins"
    assert config.cache_dir == case.folder / "cache"
    assert config.pipeline_definition_location == case.folder / "pipeline.yaml"
    assert config.state_backend.sqlite is not None
    assert config.state_backend.sqlite.database_path == case.folder / "state.db"


def test_the_cache_is_in_the_users_cache_folder(case: Case) -> None:
    assert case.load().cache_dir.is_relative_to(case.folder / "home")
    case.env["XDG_CACHE_HOME"] = "/elsewhere"
    assert case.load().cache_dir == Path("/elsewhere/streamling")


# ── unknown keys ────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_key_of_the_file_is_reported_with_its_location_and_a_suggestion(
    case: Case, warned: list[str]
) -> None:
    case.write("application_id: x\nkafka_source:\n  broker: a:1\n")
    case.load()

    assert warned == [
        "config.yaml:3:3: unknown setting kafka_source.broker has no effect (did you mean 'kafka_source.brokers'?)"
    ]


def test_an_unknown_variable_is_reported_with_a_suggestion(case: Case, warned: list[str]) -> None:
    case.set(CHECKPOINT_INTERVAL="5")
    case.load()

    assert warned == [
        "unknown environment variable STREAMLING__CHECKPOINT_INTERVAL has no effect "
        "(did you mean 'STREAMLING__CHECKPOINT_INTERVAL_SEC'?)"
    ]


def test_a_variable_one_underscore_short_is_reported(case: Case, warned: list[str]) -> None:
    case.env |= {"STREAMLING_JOB_MODE": "true", "STREAMLING_HOME": "fine"}

    assert case.load().job_mode is False
    assert len(warned) == 1
    assert "did you mean 'STREAMLING__JOB_MODE'?" in warned[0]


def test_the_value_of_an_unknown_key_is_not_shown(case: Case, warned: list[str]) -> None:
    case.write("state_backend: {postgres: {pasword: hunter2}}\n")
    case.set(POSTGRES_SINK__PASSWORD="hunter2", SOMETHING="hunter2")
    case.load()

    assert len(warned) == 3
    assert "hunter2" not in "".join(warned)
    assert warned[-1] == "unknown environment variable STREAMLING__SOMETHING has no effect"


def test_a_setting_without_effect_is_a_warning_with_its_location(case: Case, warned: list[str]) -> None:
    case.write("wasm_script:\n  parallelism: 8\nkafka_source:\n  stall_watchdog_timeout_sec: 5\n")
    case.set(ADMIN_API_PORT="3000", PLUGIN_DRAIN_BUDGET_SECS="7")
    case.load()

    assert sorted(warned) == [
        "config.yaml:4:31: kafka_source.stall_watchdog_timeout_sec has no effect: a broker that does not respond is "
        "logged and retried",
        "the environment variable STREAMLING__PLUGIN_DRAIN_BUDGET_SECS has no effect: plugins use "
        "shutdown_budget_secs like all nodes",
    ]


@pytest.mark.parametrize("variable", ["KAFKA_SOURCE", "KAFKA_SOURCE__BROKERS__X", "POSTGRES_SINK_CONNECTIONS__A"])
def test_a_variable_that_names_no_single_value_is_unknown(case: Case, warned: list[str], variable: str) -> None:
    case.env[f"STREAMLING__{variable}"] = "x"
    case.load()

    assert len(warned) == 1


# ── bad values ──────────────────────────────────────────────────────────────────────────────────────────────


def test_all_problems_are_reported_together(case: Case) -> None:
    case.write("record_batch_size: many\nkafka_source:\n  security_protocol: tls\n")
    case.set(ADMIN_API_PORT="70000", JOB_MODE="perhaps")

    assert sorted(case.problems()) == [
        "config.yaml:1:20: record_batch_size is 'many', expected a whole number of at least 1",
        "config.yaml:3:22: kafka_source.security_protocol is 'tls', "
        "expected one of plaintext, ssl, sasl_plaintext, sasl_ssl",
        "the environment variable STREAMLING__ADMIN_API_PORT is '70000', expected a whole number from 0 to 65535",
        "the environment variable STREAMLING__JOB_MODE is 'perhaps', expected true or false",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("checkpoint_interval_sec: 0", "1:26: checkpoint_interval_sec is '0', expected a number above 0"),
        ("record_batch_size: [1]", "1:20: record_batch_size is a list, expected a whole number of at least 1"),
        ("application_id: {a: 1}", "1:17: application_id is a mapping, expected text"),
        ("application_id: ''", "1:18: application_id is '', expected text"),
        ("kafka_source: here", "1:15: kafka_source must contain 'name: value' lines, indented below it"),
        (
            "clickhouse_source: {block_range: 99}",
            "1:34: clickhouse_source.sort_key_range is '99', expected a whole number of at least 100",
        ),
        (
            "postgres_sink: {batch_flush_interval: 5}",
            "1:39: postgres_sink.batch_flush_interval is '5', "
            "which is not a duration (write a number and a unit, such as 500ms, 1s, 1m 30s or 2h)",
        ),
        ("spark: {conf: {spark.a: [1]}}", "1:25: spark.conf.spark.a cannot be used, expected a mapping"),
        (
            "clickhouse_source: {url: 'http://me:hunter2@h', page_size: x}",
            "1:60: clickhouse_source.page_size is 'x', expected a whole number of at least 1",
        ),
        (
            "postgres_sink_connections: {a: {port: x}}",
            "1:39: postgres_sink_connections.a.port is 'x', expected a whole number from 1 to 65535",
        ),
        ("job_mode: true\njob_mode: false", "2:1: the key 'job_mode' is also in line 1 (remove one of them)"),
        (
            "plugin: {channel_capacity: http://me:hunter2@h}",
            "1:28: plugin.channel_capacity is 'http://me:**********@h', expected a whole number of at least 1",
        ),
    ],
)
def test_an_invalid_value_is_reported_with_its_location_and_what_was_expected(
    case: Case, text: str, problem: str
) -> None:
    case.write(text)

    assert case.problems() == [f"config.yaml:{problem}"]


@pytest.mark.parametrize(
    "text", ["- a list\n", "just text\n", "a: b: c\n", "a: [1\n", "a: *nothing\n", "a: !!python/none x\n"]
)
def test_a_file_without_settings_is_rejected(case: Case, text: str) -> None:
    case.write(text)

    [problem] = case.problems()
    assert problem.startswith("config.yaml:")


def test_an_invalid_map_in_a_variable_is_rejected_without_showing_it(case: Case) -> None:
    case.set(SPARK__CONF="hunter2")

    assert case.problems() == [
        "the environment variable STREAMLING__SPARK__CONF cannot be read, expected k=v,k=v or a JSON object"
    ]


def test_a_secret_is_never_shown_in_a_problem(case: Case) -> None:
    case.write("state_backend: {postgres: {password: [hunter2]}}\nhttp_secret_value: {a: [hunter2]}\n")

    problems = case.problems()
    assert len(problems) == 2
    assert "hunter2" not in "".join(problems)


@pytest.mark.parametrize("kind", ["Postgres", "Sqlite"])
def test_a_backend_without_its_block_is_rejected(case: Case, kind: str) -> None:
    case.write(f"state_backend:\n  backend_type: {kind}\n  {kind.lower()}:\n")

    assert case.problems() == [
        f"state_backend.backend_type is {kind}, but there is no state_backend.{kind.lower()} block"
    ]


def test_gzip_has_nine_levels(case: Case) -> None:
    case.set(CLICKHOUSE_SINK__COMPRESSION="gzip", CLICKHOUSE_SINK__COMPRESSION_LEVEL="12")

    assert case.problems() == ["clickhouse_sink.compression_level is 12; it must be between 0 and 9 for gzip"]


def test_an_admin_api_beyond_this_machine_needs_a_token(case: Case) -> None:
    case.set(ADMIN_API_HOST="0.0.0.0")
    assert case.problems() == ["admin_api_token is required when admin_api_host is not a loopback address"]

    case.set(ADMIN_API_TOKEN="hunter2")
    assert case.load().admin_api_host == "0.0.0.0"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_an_admin_api_on_this_machine_needs_none(case: Case, host: str) -> None:
    case.set(ADMIN_API_HOST=host)

    assert case.load().admin_api_token is None
