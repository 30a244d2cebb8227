"""What the `config` of a pipeline on a server may change, and what it never gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamling.errors import InvalidPipeline
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.config.pipeline_settings import config_of_pipeline
from streamling.pipeline.config.schema import settings
from streamling.pipeline.document.loader import load_yaml

SERVER = """
kafka_source:
  brokers: kafka.internal:9093
  security_protocol: sasl_ssl
  sasl_mechanism: PLAIN
  sasl_username: server-user
  sasl_password: server-password
  ssl_key_location: client.key
  schema_registry_url: https://registry.internal
  schema_registry_username: registry-user
  schema_registry_password: registry-password
clickhouse_sink: {url: "https://clickhouse.internal:8443", user: server-user, password: server-password}
postgres_sink: {host: db.internal, user: server-user, pass: server-password, sslmode: verify-full}
postgres_sink_connections:
  archive: {host: archive.internal, pass: archive-password}
  same: {pass: same-password}
dynamic_table_backend: {postgres: {host: db.internal, user: server-user, password: server-password}}
checkpoint_timeout_sec: 70
"""


def configured(tmp_path: Any, own: dict[str, Any], allowed: tuple[str, ...] = ()) -> AppConfig:
    (tmp_path / "config.yaml").write_text(SERVER)
    return config_of_pipeline(
        load_yaml(json.dumps(own), "config"),
        server=load_config(cwd=tmp_path, env={}),
        defaults={},
        limits={"internal_buffer_size": 2, "record_batch_size": 10, "checkpoint_interval_sec": 1},
        load=lambda overrides: load_config(cwd=tmp_path, env={}, overrides=overrides),
        may_receive_credentials=lambda host: host in allowed,
    )


def nested(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


def shown(value: Any) -> str:
    """The text of a secret, or of what is no secret."""
    found = value.get_secret_value() if hasattr(value, "get_secret_value") else value
    return "" if found is None else str(found)


# ── the allow-list ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    [
        *("application_id", "cache_dir", "log_level", "secrets.x", "secret_store.path", "secret_store.key_file"),
        *("admin_api_token", "pipeline_definition_location", "spark.master", "spark.conf.x", "plugin.path"),
        *("plugin.secrets.x.y", "serve.dir", "serve.tokens.x.value", "state_backend.sqlite.database_path"),
        *("network.deny_private", "network.allow", "network.credential_hosts", "wasm_script.engine"),
        *("wasm_script.runtime_wasm_file_path", "kafka_source.consumer_group_id", "kafka_source.client_id"),
        *("kafka_source.ssl_ca_location", "kafka_source.ssl_key_location", "postgres_sink.sslrootcert"),
        *("clickhouse_sink.ssl_ca_location", "postgres_sink_connections.x.sslrootcert", "http_secret_header.x"),
        *("http_secret_value.x", "open_telemetry_metrics.ingestion_endpoint", "open_telemetry_metrics.global_tags"),
        *("open_telemetry_traces.ingestion_endpoint", "postgres_sink.statement_timeout_secs", "pod_name"),
        *("dynamic_table_backend.postgres.dt_schema_name", "dynamic_table_backend.postgres.cache_enabled"),
    ],
)
def test_a_setting_of_the_server_cannot_be_set(tmp_path, path):
    with pytest.raises(InvalidPipeline, match=f"the setting '{path}' cannot be set for one pipeline"):
        configured(tmp_path, nested(path, "1"))


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ({"spark": {}}, "spark"),
        ({"spark": {"conf": {}}}, "spark.conf"),
        ({"spark": None}, "spark"),
        ({"serve": {"tokens": {"x": {}}}}, "serve.tokens.x"),
        ({"plugin": {"x": {}}}, "plugin.secrets.x"),
        ({"plugin": {"preprocessor_options": {}}}, "plugin.preprocessor_options"),
        ({"cache_dir": None}, "cache_dir"),
        ({"network": {"deny_private": None}}, "network.deny_private"),
        ({"kafka_source": {"consumer_group_id": None}}, "kafka_source.consumer_group_id"),
    ],
)
def test_a_setting_of_the_server_cannot_be_named_without_a_value_either(tmp_path, own, named):
    with pytest.raises(InvalidPipeline, match=f"the setting '{named}' cannot be set for one pipeline"):
        configured(tmp_path, own)


@pytest.mark.parametrize(
    "own", [{"kafka_source": {}}, {"kafka_source": None}, {"postgres_sink_connections": {"x": {}}}, {"job_mode": None}]
)
def test_a_name_without_a_value_that_a_pipeline_may_set_changes_nothing(tmp_path, own):
    assert configured(tmp_path, own) == configured(tmp_path, {})


def test_every_refused_setting_is_reported_at_once(tmp_path):
    with pytest.raises(InvalidPipeline) as raised:
        configured(tmp_path, {"cache_dir": "/tmp", "network": {"deny_private": False}})
    assert [problem.file for problem in raised.value.problems] == ["config", "config"]


def test_a_new_setting_belongs_to_the_server_unless_it_says_otherwise():
    free = {setting.name for setting in settings(AppConfig) if setting.extra("pipeline")}
    dangerous = ("path", "location", "file", "dir", "endpoint", "plugin", "spark", "serve", "secret", "network")
    assert not [name for name in free if any(word in name for word in dangerous)]


@pytest.mark.parametrize(
    ("path", "lower", "higher"),
    [
        ("checkpoint_timeout_sec", 60, 71),
        ("internal_buffer_size", 2, 3),
        ("record_batch_size", 10, 11),
        ("wasm_script.batch_size", 0, 11),
        ("clickhouse_sink.batch_size", 10, 11),
        ("postgres_sink.batch_size", 10, 1_000_000),
        ("wasm_script.timeout_sec", 5, 61),
        ("wasm_script.memory_limit_mb", 16, 65),
        ("external_http_handler.max_response_bytes", 10, 1 << 30),
        ("external_http_handler.operator_timeout_sec", 1, 301),
        ("external_http_handler.buffer_size", 1, 26),
        ("kafka_source.consumer_fetch_timeout_sec", 1, 61),
        ("clickhouse_source.query_timeout_sec", 1, 61),
        ("startup_timeout_sec", 0, 11),
        ("shutdown_budget_secs", 1, 26),
    ],
)
def test_a_limit_can_be_lowered_but_not_raised(tmp_path, path, lower, higher):
    configured(tmp_path, nested(path, lower))
    with pytest.raises(InvalidPipeline, match=rf"{path} is .*, but the server allows at most "):
        configured(tmp_path, nested(path, higher))


def test_a_minimum_can_be_reached_but_not_passed(tmp_path):
    configured(tmp_path, {"checkpoint_interval_sec": 1})
    with pytest.raises(InvalidPipeline, match=r"checkpoint_interval_sec is 0\.99, but the server allows at least 1"):
        configured(tmp_path, {"checkpoint_interval_sec": 0.99})


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────

KAFKA = {"sasl_username": "server-user", "sasl_password": "server-password"}
REGISTRY = {"schema_registry_username": "registry-user", "schema_registry_password": "registry-password"}


def test_without_changes_a_connection_has_the_credentials_of_the_server(tmp_path):
    same = {"kafka_source": {"brokers": "kafka.internal:9093", "security_protocol": "SASL_SSL"}, "job_mode": True}
    source = configured(tmp_path, same).kafka_source
    assert {name: shown(getattr(source, name)) for name in (*KAFKA, *REGISTRY)} == {**KAFKA, **REGISTRY}


@pytest.mark.parametrize(
    "own",
    [
        {"brokers": "mine:9092"},
        {"brokers": "kafka.internal:9093,mine:9092"},
        {"brokers": "kafka.internal:9094"},
        {"security_protocol": "sasl_plaintext"},
        {"security_protocol": "plaintext"},
        {"sasl_mechanism": "SCRAM-SHA-256"},
        {"sasl_username": "me"},
        {"sasl_username": None},
    ],
)
def test_a_kafka_connection_that_a_pipeline_changes_loses_the_credentials_of_the_server(tmp_path, own):
    source = configured(tmp_path, {"kafka_source": own}).kafka_source
    assert "server-password" not in shown(source.sasl_password)
    assert "server-user" not in shown(source.sasl_username)
    assert source.ssl_key_location is None
    assert {name: shown(getattr(source, name)) for name in REGISTRY} == REGISTRY, "another connection"


def test_credentials_of_the_pipeline_itself_are_used(tmp_path):
    own = {"brokers": "mine:9092", "sasl_username": "me", "sasl_password": "my-password"}
    source = configured(tmp_path, {"kafka_source": own}).kafka_source
    assert [shown(source.sasl_username), shown(source.sasl_password)] == ["me", "my-password"]


def test_a_registry_that_a_pipeline_changes_loses_the_credentials_of_the_server(tmp_path):
    source = configured(tmp_path, {"kafka_source": {"schema_registry_url": "https://mine"}}).kafka_source
    assert {shown(getattr(source, name)) for name in REGISTRY} == {""}
    assert {name: shown(getattr(source, name)) for name in KAFKA} == KAFKA, "another connection"


@pytest.mark.parametrize("own", [{"url": "https://mine"}, {"url": "http://clickhouse.internal:8443"}, {"user": "me"}])
def test_a_clickhouse_server_that_a_pipeline_changes_gets_no_password(tmp_path, own):
    assert shown(configured(tmp_path, {"clickhouse_sink": own}).clickhouse_sink.password) == ""


@pytest.mark.parametrize("own", [{"host": "mine"}, {"port": 5433}, {"sslmode": "disable"}, {"user": "postgres"}])
def test_a_postgres_server_that_a_pipeline_changes_gets_no_password(tmp_path, own):
    config = configured(tmp_path, {"postgres_sink": own, "dynamic_table_backend": {"postgres": own}})
    assert shown(config.postgres_sink.pass_) == ""
    assert shown(config.dynamic_table_backend.postgres.password) == ""
    assert shown(config.postgres_connection("same").pass_) == "", "follows postgres_sink"


def test_a_sink_with_a_server_of_its_own_does_not_change_with_the_others(tmp_path):
    config = configured(tmp_path, {"postgres_sink": {"host": "mine"}})
    assert shown(config.postgres_connection("archive").pass_) == "archive-password"


@pytest.mark.parametrize("sink", ["archive", "same", "new"])
@pytest.mark.parametrize("own", [{"host": "mine"}, {"sslmode": "disable"}, {"user": "me"}])
def test_one_sink_that_a_pipeline_directs_elsewhere_gets_no_password(tmp_path, sink, own):
    config = configured(tmp_path, {"postgres_sink_connections": {sink: own}})
    assert shown(config.postgres_connection(sink).pass_) == ""
    assert shown(config.postgres_connection("another").pass_) == "server-password"


def test_a_sink_that_follows_the_others_has_their_new_password(tmp_path):
    config = configured(tmp_path, {"postgres_sink": {"host": "mine", "pass": "my-password"}})
    assert [shown(config.postgres_connection(sink).pass_) for sink in ("same", "new")] == ["my-password"] * 2


def test_the_database_of_a_server_can_be_chosen(tmp_path):
    config = configured(tmp_path, {"postgres_sink": {"db": "shop"}})
    assert (config.postgres_sink.db, shown(config.postgres_sink.pass_)) == ("shop", "server-password")


def test_a_host_that_the_server_allows_gets_its_credentials(tmp_path):
    own = {"kafka_source": {"brokers": "b1.internal:9093,b2.internal"}, "postgres_sink": {"host": "b1.internal"}}
    config = configured(tmp_path, own, allowed=("b1.internal", "b2.internal"))
    assert shown(config.kafka_source.sasl_password) == "server-password"
    assert shown(config.postgres_sink.pass_) == "server-password"


@pytest.mark.parametrize(
    "own",
    [
        {"kafka_source": {"brokers": "good:1,evil:1"}},
        {"kafka_source": {"brokers": "good/evil:1"}},
        {"kafka_source": {"brokers": "good#evil:1"}},
        {"kafka_source": {"brokers": "good@evil:1"}},
        {"kafka_source": {"brokers": "good:1", "security_protocol": "sasl_plaintext"}},
        {"kafka_source": {"brokers": "https://good:1 evil:1"}},
        {"kafka_source": {"schema_registry_url": "http://good"}},
        {"kafka_source": {"schema_registry_url": "https://good@evil"}},
        {"kafka_source": {"schema_registry_url": "https://good\\@evil"}},
        {"kafka_source": {"schema_registry_url": "https://good#@evil"}},
        {"kafka_source": {"schema_registry_url": "https://good?@evil"}},
        {"kafka_source": {"schema_registry_url": "https://good,evil"}},
    ],
)
def test_an_allowed_host_is_no_disguise_for_another_one(tmp_path, own):
    source = configured(tmp_path, own, allowed=("good",)).kafka_source
    assert "" in (shown(source.sasl_password), shown(source.schema_registry_password))


def test_what_is_dropped_is_logged_without_its_value(tmp_path, caplog):
    configured(tmp_path, {"kafka_source": {"brokers": "mine:9092"}})
    (text,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "kafka_source: sasl_username, sasl_password, " in text
    assert "of the server's configuration not used because the pipeline sets brokers" in text
    assert "server-" not in text
