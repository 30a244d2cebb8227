"""`network.deny_private` applies to every client."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import OperationalError
from pydantic import SecretStr

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.config import ClickHouseSettings
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.kafka.config import KafkaSettings
from streamling.connectors.kafka.reachable import check_reachable
from streamling.connectors.kafka.registry import SchemaRegistry
from streamling.connectors.postgres.connection import PostgresServer, connect
from streamling.errors import StreamlingError
from streamling.network.policy import NetworkPolicy
from streamling.observe.telemetry.otlp_endpoint import Collector
from streamling.observe.telemetry.otlp_transport import Service, transport

PUBLIC_ONLY = NetworkPolicy(deny_private=True)


@contextmanager
def listener() -> Iterator[tuple[int, Callable[[], bool]]]:
    """A port of this machine, and whether somebody has connected to it."""
    reached: list[object] = []

    class Hangup(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            reached.append(self.client_address)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hangup) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1], lambda: bool(reached)
        finally:
            server.shutdown()
            thread.join()


def registry(host: str, port: int, network: NetworkPolicy) -> Any:
    config = KafkaSettings(schema_registry_url=f"http://{host}:{port}")
    return SchemaRegistry.of(config, "kafka_source", network).latest("x")


def clickhouse(host: str, port: int, network: NetworkPolicy) -> Any:
    server = ClickHouseServer.of(ClickHouseSettings(url=f"http://{host}:{port}"), "clickhouse_source", network)
    with ClickHouseClient(server, application_id="x", timeout=1) as client:
        return client.rows("SELECT 1")


def postgres(host: str, port: int, network: NetworkPolicy) -> Any:
    server = PostgresServer(host, port, "db", "user", SecretStr("password"), "disable", network=network)
    return connect(server, application_name="x", connect_timeout=1)


def kafka(host: str, port: int, network: NetworkPolicy) -> Any:
    return check_reachable(f"{host}:{port}", "kafka_source", network)


def otlp(protocol: str) -> Callable[[str, int, NetworkPolicy], Any]:
    def push(host: str, port: int, network: NetworkPolicy) -> Any:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
            ExportMetricsServiceRequest,
            ExportMetricsServiceResponse,
        )

        service = Service("opentelemetry.proto.collector.metrics.v1.MetricsService", ExportMetricsServiceResponse)
        with transport(Collector.of(f"http://{host}:{port}", {}), protocol, service, network) as send:
            return send(ExportMetricsServiceRequest(), 1)

    return push


CLIENTS = {
    "schema registry": registry,
    "ClickHouse": clickhouse,
    "Postgres": postgres,
    "Kafka": kafka,
    "OTLP over HTTP": otlp("http/protobuf"),
    "OTLP over gRPC": otlp("grpc"),
}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("client", CLIENTS)
def test_no_client_connects_to_a_private_address(client, host):
    with listener() as (port, was_reached):
        with pytest.raises(StreamlingError, match=r"private address, and network\.deny_private is on") as raised:
            CLIENTS[client](host, port, PUBLIC_ONLY)
        assert not was_reached()
    assert raised.value.remedy is not None
    assert "network.allow" in raised.value.remedy


@pytest.mark.parametrize("allowed", ["localhost", "127.0.0.0/8,::1"])
@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "Kafka"])
def test_an_allowed_host_is_reached(client, allowed):
    network = NetworkPolicy(deny_private=True, allow=tuple(allowed.split(",")))
    with listener() as (port, was_reached):
        with pytest.raises(Exception):  # noqa: B017  # the listener understands none of them
            CLIENTS[client]("localhost", port, network)
        assert was_reached()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_that_leads_elsewhere_after_it_was_checked_is_not_followed(client, monkeypatch):
    """DNS rebinding: the answer that was checked is harmless, the next one is not."""
    checked, private = ["127.0.0.2", "127.0.0.3"], ["127.0.0.1"]
    answers, resolve = iter([checked]), socket.getaddrinfo

    def rebound(host: str, port: Any, *options: Any, **more: Any) -> list[Any]:
        addresses = next(answers, private) if host == "rebound.test" else [host]
        return [found for each in addresses for found in resolve(each, port, *options, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    network = NetworkPolicy(deny_private=True, allow=tuple(checked))
    with listener() as (port, was_reached):
        with pytest.raises((StreamlingError, OperationalError), match=r"refused|unavailable|reach"):
            CLIENTS[client]("rebound.test", port, network)
        assert not was_reached()
    assert next(answers, None) is None, "the name was never resolved"


@pytest.mark.parametrize("addresses", [["93.184.216.34", "10.0.0.1"], ["2606:2800:220:1::1", "::1"]])
def test_every_address_of_a_name_must_be_public(addresses):
    for order in (addresses, addresses[::-1]):
        with pytest.raises(StreamlingError, match="private address"):
            PUBLIC_ONLY.check("example.com", order)
    PUBLIC_ONLY.check("example.com", addresses[:1])


@pytest.mark.parametrize("host", ["/var/run/postgresql", "@abstract", "", "localhost,/tmp"])
def test_a_socket_file_is_a_private_address(host):
    with pytest.raises(StreamlingError, match=r"network\.deny_private is on"):
        postgres(host, 5432, PUBLIC_ONLY)


def test_a_proxy_of_the_environment_is_not_asked_for_a_private_address(monkeypatch):
    with listener() as (port, was_reached):
        monkeypatch.setenv("http_proxy", f"http://localhost:{port}")
        with pytest.raises(StreamlingError, match=r"network\.deny_private is on"):
            registry("10.1.2.3", 80, PUBLIC_ONLY)
        assert not was_reached()


def test_names_that_do_not_exist_are_reported_as_before():
    with pytest.raises(StreamlingError, match="the host name cannot be resolved"):
        registry("no-such-host.invalid", 80, PUBLIC_ONLY)
