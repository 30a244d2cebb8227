"""`validate --connect` and `doctor FILE` check every connection of a pipeline."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from streamling.dev.services.avro import SchemaRegistry
from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.postgres import LocalPostgres
from streamling.dev.services.registry import LocalRegistry
from streamling.dev.services.topics import create_topic, partition_count
from tests.cli.conftest import Project

pytestmark = pytest.mark.services

PLUGIN = """
from streamling.plugins import ConnectionCheck, Sink, StreamlingError, plugin

def answer():
    return "sings"

def fail():
    raise StreamlingError.user("the bird does not sing", remedy="feed it")

@plugin("acme.bird")
class Bird(Sink):
    @classmethod
    def connections(cls, context, spark):
        check = fail if context.options.model_extra.get("hungry") else answer
        return [ConnectionCheck("bird", "cage 7", check)]

    def write(self, batch):
        pass
"""
SCHEMA = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}


def everything(topic: str, *, url: str, folder: str = "orders", hungry: bool = False) -> str:
    """A pipeline with every kind of connection."""
    postgres: dict[str, Any] = {"from": "lines", "schema": "s", "primary_key": "id"}
    return json.dumps(
        {
            "sources": {
                "lines": {"type": "file", "path": folder, "format": "csv", "primary_key": "id"},
                "events": {"type": "kafka", "topic": topic, "primary_key": "id"},
            },
            "transforms": {
                "asked": {"type": "handler", "from": "lines", "url": url, "primary_key": "id"},
                "known": {"type": "dynamic_table", "backend_type": "Postgres", "backend_entity_name": "known"},
            },
            "sinks": {
                "copy": {"type": "kafka", "from": "lines", "topic": f"{topic}-copy", "data_format": "json"},
                "rows": {"type": "postgres", "table": "t", **postgres},
                "totals": {
                    "type": "postgres_aggregate",
                    **postgres,
                    "landing_table": "l",
                    "agg_table": "a",
                    "group_by": {"item": {}},
                    "aggregate": {"n": {"fn": "count"}},
                },
                "hook": {"type": "webhook", "from": "asked", "url": url},
                "bird": {"type": "acme.bird", "from": "events", **({"hungry": True} if hungry else {})},
                "seen": {"type": "blackhole", "from": "events"},
            },
        }
    )


@contextmanager
def tls_endpoint(folder: Path) -> Iterator[tuple[str, Path]]:
    """An address with TLS where no request is expected, and the certificate to trust."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raise AssertionError("no request is sent")

    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "trusted.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}/in?key=hush-hush-66", folder / "trusted.pem"
        server.shutdown()


@pytest.fixture
def services(kafka: LocalKafka, registry: LocalRegistry, postgres: LocalPostgres) -> dict[str, str]:
    """Variables for the real services."""
    return {
        **kafka.variables(),
        **registry.variables(),
        **postgres.variables(),
        "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "Postgres",
        "STREAMLING__STATE_BACKEND__POSTGRES__STATE_SCHEMA_NAME": "connect",
        "STREAMLING__PLUGIN__PATH": "plugins",
    }


def test_every_connection_is_checked_and_nothing_is_changed(
    project: Project, kafka: LocalKafka, registry: LocalRegistry, services: dict[str, str]
) -> None:
    create_topic(kafka.brokers, "connect-good", partitions=3)
    SchemaRegistry(registry.url).register("connect-good-value", SCHEMA)
    project.write("plugins/bird.py", PLUGIN)
    with tls_endpoint(project.folder) as (url, trusted):
        project.write("pipeline.yaml", everything("connect-good", url=url))
        services["SSL_CERT_FILE"] = str(trusted)
        text = project.command("validate", "pipeline.yaml", "--connect", "--static", **services)
        doctor = project.command("doctor", "pipeline.yaml", "--json", **services)
    assert text.code == 0, text.err
    assert "hush-hush" not in text.out
    *table, verdict = text.out.splitlines()
    assert verdict.startswith("pipeline.yaml is valid")
    found = [(line.split()[0], line.split("  ")[-1]) for line in table[1:]]
    port = services["PGPORT"]
    login = f"127.0.0.1:{port}/postgres (server 18, user 'postgres')"
    assert found == [
        ("(state)", f"127.0.0.1:{port}/postgres (the table will be created)"),
        ("lines", "orders (1 file)"),
        ("events", f"{kafka.brokers}, topic 'connect-good' (3 partitions)"),
        ("events", found[3][1]),
        ("asked", found[4][1]),
        ("known", login),
        ("copy", f"{kafka.brokers}, topic 'connect-good-copy' (the topic will be created)"),
        ("rows", login),
        ("totals", login),
        ("hook", found[9][1]),
        ("bird", "cage 7 (sings)"),
    ]
    assert "subject 'connect-good-value' (schema " in found[3][1]
    assert found[4][1].endswith("/in?[REDACTED] (TLSv1.3)")
    assert all(" ok " in line and " ms " in line for line in table[1:])
    assert partition_count(kafka.brokers, "connect-good-copy") == 0

    checks = {check["name"]: check for check in json.loads(doctor.out)}
    assert doctor.code == 0
    assert checks["Java"]["status"] == "ok"
    assert checks["rows: Postgres"]["status"] == "ok"
    assert " ms, server 18" in checks["rows: Postgres"]["found"]


def test_failures_are_listed_with_a_remedy_and_exit_code_1(
    project: Project, kafka: LocalKafka, registry: LocalRegistry, services: dict[str, str]
) -> None:
    SchemaRegistry(registry.url).register("connect-bad-value", SCHEMA)
    project.write("plugins/bird.py", PLUGIN)
    url = "http://no-such-host.invalid/in"
    project.write("pipeline.yaml", everything("connect-bad", url=url, folder="empty", hungry=True))
    wrong = {
        **services,
        "STREAMLING__KAFKA_SINK__BROKERS": "127.0.0.1:1",
        "STREAMLING__POSTGRES_SINK__DB": "nowhere",
        "STREAMLING__DYNAMIC_TABLE_BACKEND__POSTGRES__PORT": "1",
        "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "Sqlite",
        "STREAMLING__STATE_BACKEND__SQLITE__DATABASE_PATH": "pipeline.yaml/state.db",
    }
    text = project.command("validate", "pipeline.yaml", "--connect", "--static", **wrong)
    verdict = project.command("validate", "pipeline.yaml", "--connect", "--static", "--json", **wrong)
    assert text.code == verdict.code == 1
    assert "10 of 11 connections failed" in text.err
    assert "is valid" not in text.out
    connections = json.loads(verdict.out)["connections"]
    failed = {(one["node"], one["connection"]): (one["error"], one["remedy"]) for one in connections if not one["ok"]}
    assert {one["node"] for one in connections if one["ok"]} == {"events"}
    expected = {
        ("(state)", "SQLite file"): ("cannot be created", "state_backend.sqlite.database_path"),
        ("lines", "files"): ("/empty': the folder does not exist", "correct the path"),
        ("events", "Kafka"): ("the topic 'connect-bad' does not exist", "create it"),
        ("asked", "HTTP"): ("the host name cannot be resolved", "correct `url`"),
        ("known", "Postgres"): ("Connection refused", "correct dynamic_table_backend.postgres.host"),
        ("copy", "Kafka"): ("cannot connect to the Kafka brokers at 127.0.0.1:1", "correct kafka_sink.brokers"),
        ("rows", "Postgres"): ("has no database 'nowhere'", "correct postgres_sink.db"),
        ("totals", "Postgres"): ("has no database 'nowhere'", "correct postgres_sink.db"),
        ("hook", "HTTP"): ("the host name cannot be resolved", "correct `url`"),
        ("bird", "bird"): ("the bird does not sing", "feed it"),
    }
    assert failed.keys() == expected.keys()
    for which, (error, remedy) in expected.items():
        assert error in failed[which][0]
        assert remedy in failed[which][1]
        assert error in text.err
        assert remedy in text.err
