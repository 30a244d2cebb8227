from __future__ import annotations

import pytest
from pydantic import ValidationError

from streamling.connectors.postgres.config import connection_key
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.schema import fields, is_secret, section_of, settings

SECRETS = {
    "admin_api_token": "hunter2",
    "http_secret_value": {"a": "hunter2"},
    "spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.a": "jdbc://me:hunter2@h"}},
    "plugin": {"secrets": {"p": {"k": "hunter2"}}, "preprocessor_options": {"api_key": "hunter2"}},
    "state_backend": {"postgres": {"password": "hunter2"}},
    "dynamic_table_backend": {"postgres": {"password": "hunter2"}},
    "kafka_source": {
        "sasl_username": "hunter2",
        "sasl_password": "hunter2",
        "schema_registry_password": "hunter2",
        "schema_registry_url": "http://me:hunter2@h",
    },
    "kafka_sink": {"sasl_password": "hunter2", "schema_registry_password": "hunter2"},
    "clickhouse_source": {"password": "hunter2", "url": "http://me:hunter2@h"},
    "clickhouse_sink": {"password": "hunter2"},
    "postgres_sink": {"pass": "hunter2"},
    "postgres_sink_connections": {"a": {"pass": "hunter2"}},
    "open_telemetry_metrics": {"ingestion_endpoint": "https://me:hunter2@h/v1?token=hunter2"},
}


def test_secrets_are_shown_nowhere() -> None:
    config = AppConfig.model_validate(SECRETS)

    for shown in (
        repr(config),
        str(config),
        f"{config}",
        config.model_dump_json(),
        str(config.model_dump(mode="json")),
    ):
        assert "hunter2" not in shown
    assert config.postgres_sink.pass_.get_secret_value() == "hunter2"


def test_every_setting_whose_name_suggests_a_secret_is_typed_as_one() -> None:
    suspicious = [s for s in settings(AppConfig) if any(w in s.path[-1] for w in ("password", "token", "secret"))]

    assert len(suspicious) >= 8
    assert [s.name for s in suspicious if not is_secret(s.info)] == []


def test_a_configuration_does_not_change() -> None:
    config = AppConfig()

    with pytest.raises(ValidationError):
        config.application_id = "other"
    with pytest.raises(ValidationError):
        config.kafka_source.brokers = "other"


def test_the_defaults_are_as_documented() -> None:
    """Spot checks against the reference; the page in docs/ lists all defaults."""
    config = AppConfig()

    assert config.checkpoint_interval_sec == 5
    assert config.record_batch_size == 1000
    assert config.shutdown_budget_secs == 25
    assert config.state_backend.backend_type == "Sqlite"
    assert config.state_backend.postgres is not None
    assert config.state_backend.postgres.sslmode == "require"
    assert config.postgres_sink.sslmode == "disable"
    assert config.clickhouse_source.sort_key_range == 1_000_000
    assert config.kafka_source.schema_registry_url == "http://localhost:18081"
    assert config.spark.master == "local[*]"


def test_every_setting_is_described() -> None:
    assert [setting.name for setting in settings(AppConfig) if not setting.info.description] == []


def test_sections_are_present_by_default() -> None:
    defaults = AppConfig()
    for name, info in fields(AppConfig).items():
        if section_of(info.annotation):
            assert getattr(defaults, name) is not None


@pytest.mark.parametrize(("budget", "configured", "seconds"), [(25, None, 5), (6, None, 3), (1, None, 1), (25, 8, 8)])
def test_the_wait_for_a_state_connection_fits_the_shutdown_budget(
    budget: float, configured: float | None, seconds: float
) -> None:
    state = {"postgres": {"acquire_timeout_secs": configured}}
    config = AppConfig.model_validate({"shutdown_budget_secs": budget, "state_backend": state})

    assert config.state_backend.postgres.acquire_timeout(config.shutdown_budget_secs) == seconds


@pytest.mark.parametrize(
    ("sink", "key"), [("orders", "orders"), ("Orders.Raw", "orders_raw"), ("--a  b__c!", "a_b_c"), ("é1", "1")]
)
def test_the_key_of_a_sinks_connection(sink: str, key: str) -> None:
    assert connection_key(sink) == key
