"""Configuration, variables and secrets of a pipeline, within what the operator allows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamling.pipeline.config import load_config
from streamling.pipeline.secrets.keys import Key, KeySetting
from streamling.pipeline.secrets.store import SecretStore
from streamling.serve.launchers import Launchers
from streamling.serve.model import PipelineBody, PipelineKey, PipelineRecord
from streamling.serve.sizes import SIZES

KEY = PipelineKey("shop", "orders")


def launchers(tmp_path, secrets: dict[str, str] | None = None, **env: str) -> Launchers:
    store = SecretStore(tmp_path / "secrets.enc", KeySetting(Key.generate().text))
    for name, value in (secrets or {}).items():
        store.set(name, value)
    return Launchers(load_config(cwd=tmp_path, env=env), "config", tmp_path, env, store)


def spec(definition: str = "", is_trusted: bool = False, **fields) -> PipelineRecord:
    wanted = PipelineBody(definition=definition, **fields)
    return PipelineRecord.first(KEY, wanted, datetime.now(UTC), "dir" if is_trusted else "api")


def test_a_pipeline_has_its_own_name_in_the_state(tmp_path):
    made = launchers(tmp_path, STREAMLING__APPLICATION_ID="server")
    assert made.of(spec()).config.application_id == "shop.orders"


def test_its_settings_take_precedence_over_those_of_the_server(tmp_path):
    (tmp_path / "config.yaml").write_text("checkpoint_interval_sec: 7\nkafka_source: {brokers: here, client_id: me}\n")
    made = launchers(tmp_path, STREAMLING__CHECKPOINT_TIMEOUT_SEC="70")
    own = {"checkpoint_timeout_sec": 60, "kafka_source": {"brokers": "there"}}
    config = made.of(spec(config=own)).config
    assert (config.checkpoint_interval_sec, config.checkpoint_timeout_sec) == (7, 60)
    assert (config.kafka_source.brokers, config.kafka_source.client_id) == ("there", "me")
    assert made.of(spec()).config.checkpoint_timeout_sec == 70


def test_sizes_set_rows_and_queues_unless_the_pipeline_does(tmp_path):
    made = launchers(tmp_path)
    config = made.of(spec(size="xs")).config
    assert (config.explicit_value("record_batch_size"), config.explicit_value("internal_buffer_size")) == (10_000, 1)
    assert made.of(spec(size="xs", config={"record_batch_size": 5})).config.record_batch_size == 5
    assert made.of(spec(size="m")).config.explicit_value("record_batch_size") is None
    assert [SIZES[size].weight for size in ("xs", "s", "m", "l", "xl")] == [1, 2, 4, 8, 16]


def test_a_start_does_not_wait_for_systems_unless_the_pipeline_says_so(tmp_path):
    made = launchers(tmp_path)
    assert made.of(spec()).config.startup_timeout_sec == 0
    assert made.of(spec(config={"startup_timeout_sec": 3})).config.startup_timeout_sec == 3


def test_consumer_groups_have_the_name_of_their_pipeline_also_if_the_server_names_them(tmp_path):
    made = launchers(tmp_path, STREAMLING__KAFKA_SOURCE__CONSUMER_GROUP_ID="ours")
    assert made.of(spec()).config.kafka_source.consumer_group_id == "ours.shop.orders"
    assert made.of(spec(is_trusted=True)).config.kafka_source.consumer_group_id == "ours"
    assert launchers(tmp_path).of(spec()).config.kafka_source.consumer_group_id is None


@pytest.mark.parametrize(
    ("configured", "of_stranger", "of_operator"),
    [({}, (), None), ({"STREAMLING__NETWORK__CREDENTIAL_HOSTS": "api.example"}, ("api.example",), ("api.example",))],
)
def test_credentials_go_only_to_named_hosts_unless_the_operator_wrote_the_definition(
    tmp_path, configured, of_stranger, of_operator
):
    made = launchers(tmp_path, **configured)
    assert made.of(spec()).config.network.credential_hosts == of_stranger
    assert made.of(spec(is_trusted=True)).config.network.credential_hosts == of_operator


@pytest.mark.parametrize(
    ("configured", "password"), [({}, ""), ({"STREAMLING__NETWORK__CREDENTIAL_HOSTS": "there"}, "server-password")]
)
def test_a_connection_that_the_pipeline_changes_has_the_password_of_the_server_at_named_hosts_only(
    tmp_path, configured, password
):
    made = launchers(tmp_path, STREAMLING__POSTGRES_SINK__PASS="server-password", **configured)
    changed = made.of(spec(config={"postgres_sink": {"host": "there"}})).config
    assert changed.postgres_sink.pass_.get_secret_value() == password


def test_only_allowed_variables_are_visible_unless_the_operator_wrote_the_definition(tmp_path):
    made = launchers(tmp_path, STREAMLING__SERVE__VARIABLES="PIPELINE_*,REGION", PIPELINE_A="1", REGION="eu", OTHER="2")
    assert dict(made.of(spec()).env) == {"PIPELINE_A": "1", "REGION": "eu"}
    assert made.of(spec(is_trusted=True)).env["OTHER"] == "2"
    assert dict(launchers(tmp_path, PIPELINE_A="1").of(spec()).env) == {}


def test_secrets_of_the_configuration_take_precedence_over_stored_ones(tmp_path):
    made = launchers(tmp_path, {"api-key": "stored", "Other": "value"}, STREAMLING__SECRETS__API_KEY="configured")
    secrets = made.of(spec()).variables.secrets
    assert {name: value.get_secret_value() for name, value in secrets.items()} == {
        "api_key": "configured",
        "other": "value",
    }
