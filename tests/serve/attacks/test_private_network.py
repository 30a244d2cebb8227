"""An operator reaches systems behind the server, although `network.deny_private` is on."""

from __future__ import annotations

from typing import Any

import pytest

from streamling.dev.services.kafka import LocalKafka
from tests.harness.endpoint import Reply, endpoint
from tests.serve.attacks.attempts import Attacker
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

DENIED = "network.deny_private is on"


def inside(system: str, host: str, peer: Listener, attacker: Attacker) -> tuple[str, dict[str, Any]]:
    """A pipeline that connects to ``peer`` as ``host``."""
    folder, port = attacker.server.folder, peer.port
    postgres = {"host": host, "port": port, "sslmode": "disable"}
    sink = to_sink(folder, "type: postgres, schema: public, table: rows, primary_key: id")
    systems: dict[str, tuple[str, dict[str, Any]]] = {
        "kafka source": (KAFKA_SOURCE, {"kafka_source": {"brokers": f"{host}:{port}"}}),
        "kafka sink": (
            to_sink(folder, "type: kafka, topic: rows, data_format: json"),
            {"kafka_sink": {"brokers": f"{host}:{port}"}},
        ),
        "registry": (AVRO_SOURCE, {"kafka_source": {"schema_registry_url": f"http://{host}:{port}"}}),
        "clickhouse source": (CLICKHOUSE_SOURCE, {"clickhouse_source": {"url": f"http://{host}:{port}"}}),
        "clickhouse sink": (
            to_sink(folder, "type: clickhouse, table: rows, primary_key: id"),
            {"clickhouse_sink": {"url": f"http://{host}:{port}"}},
        ),
        "postgres sink": (sink, {"postgres_sink": postgres}),
        "one postgres sink": (sink, {"postgres_sink_connections": {"out": postgres}}),
        "dynamic table": (to_table(folder), {"dynamic_table_backend": {"postgres": postgres}}),
        "webhook": (to_sink(folder, f'type: webhook, url: "http://{host}:{port}"'), {}),
        "handler": (to_handler(folder, f"http://{host}:{port}"), {}),
    }
    return systems[system]


SYSTEMS = [
    *("kafka source", "kafka sink", "registry", "clickhouse source", "clickhouse sink", "postgres sink"),
    *("one postgres sink", "dynamic table", "webhook", "handler"),
]


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_operator_names_a_private_address(insider: Attacker, listener: Listener, system):
    outcome = insider.create(*inside(system, "127.0.0.1", listener, insider))
    assert DENIED in outcome.texts, outcome.texts
    assert not listener.connections


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "0", "2130706433", "[::ffff:127.0.0.1]", "127.0.0.1.", "[::1]"])
@pytest.mark.parametrize("system", ["webhook", "postgres sink", "kafka source", "registry"])
def test_an_operator_writes_a_private_address_differently(insider: Attacker, listener: Listener, system, host):
    host = host.strip("[]") if system == "postgres sink" else host
    insider.create(*inside(system, host, listener, insider))
    assert not listener.connections


@pytest.mark.parametrize("host", ["/var/run/postgresql", "@socket", "localhost,127.0.0.1", "127.0.0.1,localhost"])
def test_an_operator_connects_postgres_to_a_socket_or_to_one_more_host(insider: Attacker, listener: Listener, host):
    outcome = insider.create(*inside("postgres sink", host, listener, insider))
    assert DENIED in outcome.texts, outcome.texts
    assert not listener.connections


def test_a_host_that_the_server_allows_is_reached(insider: Attacker, listener: Listener):
    """Otherwise the tests above would prove nothing."""
    insider.create(*inside("registry", "localhost", listener, insider))
    assert listener.connections


@pytest.mark.parametrize("address", ["http://127.0.0.1:{}/", "http://[::ffff:127.0.0.1]:{}/", "//127.0.0.1:{}/"])
@pytest.mark.parametrize("status", [302, 307, 308])
def test_an_allowed_system_redirects_to_a_private_address(insider: Attacker, listener: Listener, address, status):
    target = address.format(listener.port)
    with endpoint(lambda request: Reply(status, headers={"Location": target})) as peer:
        insider.create(AVRO_SOURCE, {"kafka_source": {"schema_registry_url": f"http://localhost:{peer.port}"}})
        insider.create(to_handler(insider.server.folder, f"http://localhost:{peer.port}"))
        assert peer.requests
    assert not listener.connections


@pytest.mark.services
def test_an_allowed_broker_names_a_private_address_as_its_own(insider: Attacker, kafka: LocalKafka):
    """The broker is reached as `localhost`, and says that its address is 127.0.0.1. That it could be read otherwise is
    tested in tests/connectors/kafka/test_network.py."""
    host, _, port = kafka.brokers.partition(":")
    assert host == "127.0.0.1"
    outcome = insider.create(KAFKA_SOURCE, {"kafka_source": {"brokers": f"localhost:{port}"}})
    assert "network.deny_private is on: addresses that brokers name must be public" in outcome.texts
