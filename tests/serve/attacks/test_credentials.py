"""An operator tries to get the credentials of the server, from its configuration and its environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.serve.attacks.attempts import Attacker
from tests.serve.attacks.conftest import SECRETS
from tests.serve.attacks.definitions import (
    AVRO_SOURCE,
    CLICKHOUSE_SOURCE,
    KAFKA_SOURCE,
    to_handler,
    to_sink,
    to_table,
)
from tests.serve.attacks.peers import Listener

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_OUT = "postgres_sink_connections"


def _kafka_sink(folder: Path, kind: str = "json") -> str:
    return to_sink(folder, f"type: kafka, topic: rows, data_format: {kind}")


def _postgres(folder: Path, name: str = "out") -> str:
    return to_sink(folder, "type: postgres, schema: public, table: rows, primary_key: id", name)


def _clickhouse(folder: Path) -> str:
    return to_sink(folder, "type: clickhouse, table: rows, primary_key: id")


def redirected(attack: str, peer: Listener, folder: Path) -> tuple[str, dict[str, Any]]:
    """A pipeline whose `config` sends a client of the server to ``peer``."""
    here = {"host": "127.0.0.1", "port": peer.port, "sslmode": "disable"}
    registry = {"schema_registry_url": peer.url}
    attacks: dict[str, tuple[str, dict[str, Any]]] = {
        "the brokers of a source": (KAFKA_SOURCE, {"kafka_source": {"brokers": peer.address}}),
        "one more broker of a source": (
            KAFKA_SOURCE,
            {"kafka_source": {"brokers": f"kafka.invalid:9092,{peer.address}"}},
        ),
        "the brokers of a sink": (_kafka_sink(folder), {"kafka_sink": {"brokers": peer.address}}),
        "the brokers and a mechanism": (
            KAFKA_SOURCE,
            {
                "kafka_source": {
                    "brokers": peer.address,
                    "sasl_mechanism": "PLAIN",
                    "security_protocol": "SASL_PLAINTEXT",
                }
            },
        ),
        "the brokers and a user without a password": (
            KAFKA_SOURCE,
            {"kafka_source": {"brokers": peer.address, "sasl_username": "me"}},
        ),
        "the registry of a source": (AVRO_SOURCE, {"kafka_source": registry}),
        "the registry of a sink": (_kafka_sink(folder, "avro"), {"kafka_sink": registry}),
        "the registry with an allowed name in the URL": (
            AVRO_SOURCE,
            {"kafka_source": {"schema_registry_url": f"http://api.example.com@{peer.address}"}},
        ),
        "the registry with an allowed name as user": (
            AVRO_SOURCE,
            {"kafka_source": {"schema_registry_url": f"http://api.example.com:80@{peer.address}/"}},
        ),
        "the server of a ClickHouse source": (CLICKHOUSE_SOURCE, {"clickhouse_source": {"url": peer.url}}),
        "the server of a ClickHouse sink": (_clickhouse(folder), {"clickhouse_sink": {"url": peer.url}}),
        "the host of the Postgres sinks": (_postgres(folder), {"postgres_sink": here}),
        "the host of one Postgres sink": (_postgres(folder), {_OUT: {"out": here}}),
        "the host of a Postgres sink that the server configures": (
            _postgres(folder, "archive"),
            {_OUT: {"archive": here}},
        ),
        "one more host of the Postgres sinks": (
            _postgres(folder),
            {"postgres_sink": {**here, "host": "db.invalid,127.0.0.1"}},
        ),
        "a database that is a connection string": (
            _postgres(folder),
            {"postgres_sink": {"db": f"host=127.0.0.1 port={peer.port} sslmode=disable dbname=x"}},
        ),
        "a user that is a connection string": (
            _postgres(folder),
            {"postgres_sink": {"user": f"x host=127.0.0.1 port={peer.port} sslmode=disable"}},
        ),
        "the host of dynamic tables": (to_table(folder), {"dynamic_table_backend": {"postgres": here}}),
        "a host and an empty password, for which libpq would ask the environment": (
            _postgres(folder),
            {"postgres_sink": {**here, "pass": ""}},
        ),
    }
    return attacks[attack]


@pytest.mark.parametrize(
    "attack",
    [
        *("the brokers of a source", "one more broker of a source", "the brokers of a sink"),
        *("the brokers and a mechanism", "the brokers and a user without a password"),
        *("the registry of a source", "the registry of a sink", "the registry with an allowed name in the URL"),
        *("the registry with an allowed name as user", "the server of a ClickHouse source"),
        *("the server of a ClickHouse sink", "the host of the Postgres sinks", "the host of one Postgres sink"),
        *("the host of a Postgres sink that the server configures", "one more host of the Postgres sinks"),
        *("a database that is a connection string", "a user that is a connection string"),
        *("the host of dynamic tables",),
        *("a host and an empty password, for which libpq would ask the environment",),
    ],
)
def test_an_operator_directs_a_client_of_the_server_to_a_machine_of_his_own(evil: Attacker, listener, attack):
    outcome = evil.create(*redirected(attack, listener, evil.server.folder))
    assert not [name for name, secret in SECRETS.items() if secret in listener.text]
    assert not outcome.reveals(SECRETS.values())


@pytest.mark.parametrize(
    ("attack", "definition", "config"),
    [
        (
            "kafka",
            lambda folder: KAFKA_SOURCE,
            lambda peer: {
                "kafka_source": {"brokers": peer.address, "sasl_username": "me", "sasl_password": "my-own-0815"}
            },
        ),
        (
            "registry",
            lambda folder: AVRO_SOURCE,
            lambda peer: {"kafka_source": {"schema_registry_url": peer.url, "schema_registry_password": "my-own-0815"}},
        ),
        (
            "postgres",
            _postgres,
            lambda peer: {
                "postgres_sink": {
                    "host": "127.0.0.1",
                    "port": peer.port,
                    "sslmode": "disable",
                    "pass": "my-own-0815",
                }
            },
        ),
        (
            "clickhouse",
            lambda folder: CLICKHOUSE_SOURCE,
            lambda peer: {"clickhouse_source": {"url": peer.url, "password": "my-own-0815"}},
        ),
    ],
)
def test_the_listener_would_see_credentials_those_of_the_pipeline_itself_arrive(
    evil, listener, attack, definition, config
):
    """Otherwise the tests above would prove nothing."""
    evil.create(definition(evil.server.folder), config(listener))
    assert "my-own-0815" in listener.text


@pytest.mark.parametrize("url", ["http://{}", "http://api.example.com@{}", "http://{}/api.example.com"])
@pytest.mark.parametrize("node", ["webhook", "handler"])
def test_an_operator_sends_a_header_of_the_configuration_to_an_address_of_his_own(evil, listener, node, url):
    address, folder = url.format(listener.address), evil.server.folder
    definition = (
        to_sink(folder, f'type: webhook, url: "{address}", secret_name: api')
        if node == "webhook"
        else to_handler(folder, address, ", secret_name: api")
    )
    outcome = evil.create(definition)
    assert outcome.status == 422
    assert "network.credential_hosts" in outcome.texts
    assert not listener.received
    assert not outcome.reveals(SECRETS.values())


@pytest.mark.parametrize(
    "text",
    [
        "${PRIVATE_VARIABLE}",
        "${PGPASSWORD}",
        "${OTEL_EXPORTER_OTLP_HEADERS}",
        "${STREAMLING__KAFKA_SOURCE__SASL_PASSWORD}",
        "${STREAMLING__SERVE__TOKENS__ADMIN__VALUE}",
        "${PRIVATE_VARIABLE:-default}",
        "${secret:../PRIVATE_VARIABLE}",
        "${env:PRIVATE_VARIABLE}",
    ],
)
def test_an_operator_reads_a_variable_of_the_server(evil, listener, text):
    outcome = evil.create(
        to_sink(evil.server.folder, f'type: webhook, url: "{listener.url}", headers: {{X: "{text}"}}')
    )
    assert not outcome.reveals([*SECRETS.values(), "admin-token"])
    assert not [secret for secret in (*SECRETS.values(), "admin-token") if secret in listener.text]


@pytest.mark.parametrize("request_", ["create", "validate", "preview"])
@pytest.mark.parametrize(
    "setting",
    [
        "network.deny_private=false",
        "network.allow=*",
        "network.credential_hosts=*",
        "open_telemetry_metrics.ingestion_endpoint=http://127.0.0.1:1",
        "open_telemetry_traces.ingestion_endpoint=http://127.0.0.1:1",
        "kafka_source.consumer_group_id=shop.orders",
        "kafka_source.client_id=__admin_client",
        "kafka_source.ssl_key_location=token.txt",
        "postgres_sink.sslrootcert=token.txt",
        "secret_store.path=other.enc",
        "secrets.mine=1234",
        "state_backend.sqlite.database_path=other.db",
        "plugin.path=.",
        "plugin.mine.key=1",
        "spark.conf.spark.driver.extraJavaOptions=-Dx=y",
        "serve.variables=*",
        "http_secret_header.api=X-Other",
        "http_secret_value.api=1234",
        "wasm_script.memory_limit_mb=2048",
        "wasm_script.timeout_sec=100000",
        "wasm_script.runtime_wasm_file_path=/tmp/x.wasm",
        "external_http_handler.max_response_bytes=100000000000",
        "internal_buffer_size=1000000",
        "record_batch_size=1000000000",
        "checkpoint_timeout_sec=1000000",
        "clickhouse_sink.batch_size=1000000000",
        "postgres_sink.batch_size=1000000000",
        "wasm_script.batch_size=1000000000",
        "checkpoint_interval_sec=0.001",
    ],
)
def test_an_operator_changes_a_setting_of_the_server(evil, request_, setting):
    path, _, value = setting.partition("=")
    config: Any = value
    for name in reversed(path.split(".", 2) if path.startswith("spark.conf.") else path.split(".")):
        config = {name: config}
    outcome = getattr(evil, request_)(to_sink(evil.server.folder, "type: blackhole"), config)
    assert "cannot be set for one pipeline" in outcome.texts or "the server allows at " in outcome.texts
    assert outcome.status == (200 if request_ == "validate" else 422)
