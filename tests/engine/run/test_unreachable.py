"""Services that cannot be reached when a pipeline starts, and services that stop answering while it runs."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.connectors.postgres.test_recovery import Worker
from tests.harness.pipelines import Bench, eventually, finish
from tests.harness.tcp_front import TcpFront

from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError

pytestmark = [pytest.mark.spark, pytest.mark.services]

#: a port that nobody listens on
NOBODY = "127.0.0.1:1"
NUMBERS = {"type": "numbers", "rows": 20, "batch": 5}


def pipeline(source: dict[str, Any], sink: dict[str, Any]) -> str:
    return json.dumps({"sources": {"rows": source}, "sinks": {"out": {"from": "rows", "primary_key": "id", **sink}}})


@pytest.mark.parametrize(
    ("source", "sink", "settings", "says", "remedy"),
    [
        (
            {"type": "kafka", "topic": "t", "data_format": "json", "schema": {"id": "long"}},
            {"type": "memory"},
            {"kafka_source": {"brokers": NOBODY}},
            f"kafka source 'rows': cannot connect to the Kafka brokers at {NOBODY}: Connection refused",
            "start the brokers, or correct kafka_source.brokers",
        ),
        (
            NUMBERS,
            {"type": "kafka", "topic": "t", "data_format": "json"},
            {"kafka_sink": {"brokers": NOBODY}},
            f"kafka sink 'out': cannot connect to the Kafka brokers at {NOBODY}: Connection refused",
            "start the brokers, or correct kafka_sink.brokers",
        ),
        (
            {"type": "kafka", "topic": "t"},
            {"type": "memory"},
            {"kafka_source": {"schema_registry_url": f"http://{NOBODY}"}},
            f"the schema registry at http://{NOBODY} does not respond: Connection refused",
            "start the registry, or correct kafka_source.schema_registry_url",
        ),
        (
            NUMBERS,
            {"type": "webhook", "url": f"http://{NOBODY}/hook"},
            {},
            f"POST http://{NOBODY}/hook: connection refused",
            "start the service, or correct `url`",
        ),
        (
            NUMBERS,
            {"type": "postgres", "schema": "s", "table": "t"},
            {"postgres_sink": {"host": "127.0.0.1", "port": 1}},
            f"postgres sink 'out': cannot connect to Postgres at {NOBODY}/postgres: Connection refused",
            "start the server, or correct postgres_sink.host or postgres_sink.port",
        ),
    ],
    ids=["kafka source", "kafka sink", "schema registry", "webhook", "postgres sink"],
)
def test_what_cannot_be_reached_at_the_start_ends_the_run_with_the_setting_to_change(
    spark, source: dict[str, Any], sink: dict[str, Any], settings: dict[str, Any], says: str, remedy: str
) -> None:
    bench = Bench(spark)
    with pytest.raises(StreamlingError) as raised:
        bench.run(pipeline(source, sink), startup_timeout_sec=0, **settings)
    assert says in str(raised.value)
    assert raised.value.remedy == remedy


class Unavailable(BaseHTTPRequestHandler):
    """A registry that never gets ready."""

    def do_GET(self) -> None:
        self.send_error(503)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def test_a_registry_that_never_gets_ready_ends_the_start(spark) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Unavailable) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {"schema_registry_url": f"http://127.0.0.1:{server.server_port}"}
        text = pipeline({"type": "kafka", "topic": "t"}, {"type": "memory"})
        started = Worker(lambda: Bench(spark).prepare(text, startup_timeout_sec=0.5, kafka_source=settings))
        with pytest.raises(StreamlingError, match="returned 503"):
            started.finish()
        server.shutdown()


def test_a_sink_that_stays_unavailable_ends_the_run_with_its_last_error(spark, postgres: LocalPostgres) -> None:
    front = TcpFront(postgres.port).open()
    settings = {"host": "127.0.0.1", "port": front.port, "user": "postgres"}
    sink = {"type": "postgres", "schema": "unreachable", "table": "t"}
    endless = {**NUMBERS, "rows": 100_000, "pause": 0.05, "ends": False}
    run = Bench(spark).start(pipeline(endless, sink), postgres_sink=settings, checkpoint_timeout_sec=2)
    eventually(lambda: sum(run.rows_written().values()) > 10)
    front.close()
    with pytest.raises(StreamlingError, match=r"checkpoint \d+ timed out: sink 'out' did not respond") as raised:
        finish(run)
    (cause,) = raised.value.causes()
    assert cause == (
        f"'out' was retrying: cannot connect to Postgres at 127.0.0.1:{front.port}/postgres: Connection refused"
    )
