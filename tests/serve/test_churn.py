"""A server on which pipelines come and go for ever: at the end it holds what it held at the beginning."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamling.dev.services.topics import Message, create_topic, produce
from tests.harness.pipelines import eventually
from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.processes import children
from tests.serve.server import Client, ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: of each kind of pipeline: the first ones fill caches and pools of threads
FIRST, CYCLES = 5, int(os.environ.get("STREAMLING_TEST_CHURN_CYCLES", "12"))
#: what may differ between two moments in which nothing runs
FILES, CONNECTIONS, HEAP_MB = 6, 4, 12


_HEAP = r"(?:heap|OldGen|Tenured|tenured generation)\s+total .*?used (\d+)K"
_CONNECTION_THREAD = r'^"Thread-\d+"'


@dataclass(frozen=True)
class Held:
    """What a server holds: open files, threads of the JVM that serve connections of Python, heap after a collection."""

    files: int
    connections: int
    heap_mb: float

    def is_like(self, before: Held) -> bool:
        return (
            self.files <= before.files + FILES
            and self.connections <= before.connections + CONNECTIONS
            and self.heap_mb <= before.heap_mb + HEAP_MB
        )


class Churn:
    """Creates, changes and deletes pipelines."""

    def __init__(self, server: ServeProcess, client: Client, definitions: dict[str, str]) -> None:
        self._server = server
        self._client = client
        self._definitions = definitions

    def run(self, cycles: int) -> None:
        for _ in range(cycles):
            for name, definition in self._definitions.items():
                self._cycle(name, definition)

    def _cycle(self, name: str, definition: str) -> None:
        path = f"/pipelines/default/{name}"
        assert self._client.create(name, definition).status == 201
        self._wait(name)
        etag = self._client.pipeline(name)["etag"]
        body = {"definition": f"{definition}# changed\n"}
        assert self._client.request("PUT", path, body, headers={"If-Match": etag}).status == 200
        self._wait(name)
        self._client.get(f"{path}/topology")
        assert self._client.request("DELETE", f"{path}?state=delete").status == 202
        self._server.eventually(lambda: self._client.state(name) == "absent")

    def _wait(self, name: str) -> None:
        """Until the pipeline has done what it can."""

        def is_settled() -> bool:
            found = self._client.pipeline(name)
            return found["current"] and (found["ready"] or found["state"] in ("failed", "finished"))

        self._server.eventually(is_settled)


def held(server: ServeProcess) -> Held:
    (jvm,) = children(server.pid, "java")
    with allow_attaching(jvm):
        ask(jvm, "GC.run")
        ask(jvm, "GC.run")
        heap = re.search(_HEAP, ask(jvm, "GC.heap_info"))
        threads = re.findall(_CONNECTION_THREAD, ask(jvm, "Thread.print"), re.MULTILINE)
    assert heap is not None
    return Held(len(list(Path(f"/proc/{server.pid}/fd").iterdir())), len(threads), int(heap[1]) / 1024)


@contextmanager
def allow_attaching(jvm: int) -> Iterator[None]:
    """The file and the signal for which a JVM listens to commands: the Java of the tests has no ``jcmd``."""
    request, listening = Path(f"/proc/{jvm}/cwd/.attach_pid{jvm}"), Path(f"/tmp/.java_pid{jvm}")
    request.touch()
    try:
        os.kill(jvm, signal.SIGQUIT)
        eventually(listening.exists)
        yield
    finally:
        request.unlink()


def ask(jvm: int, command: str) -> str:
    """The answer of a JVM to a command of ``jcmd``."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"/tmp/.java_pid{jvm}")
        connection.sendall(f"1\0jcmd\0{command}\0\0\0".encode())
        with connection.makefile("rb") as answer:
            return answer.read().decode()


@pytest.fixture
def server(tmp_path, kafka, postgres) -> Iterator[ServeProcess]:
    variables = {
        **kafka.variables(),
        **postgres.variables(),
        # several instances may divide a topic: each pipeline is a member of a consumer group
        "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "Postgres",
        "STREAMLING__STATE_BACKEND__POSTGRES__STATE_SCHEMA_NAME": "serve_churn_state",
        "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.5",
    }
    with ServeProcess(tmp_path, variables) as process:
        yield process


def test_pipelines_that_come_and_go_leave_nothing(server, tmp_path, kafka):
    create_topic(kafka.brokers, "serve-churn", partitions=1)
    produce(kafka.brokers, "serve-churn", [Message(json.dumps({"id": 1}).encode())])
    write_csv(tmp_path / "orders" / "1.csv", range(2))
    topic = """
sources:
  orders: {type: kafka, topic: serve-churn, data_format: json, schema: {id: int64}, primary_key: id}
transforms:
  scripted: {type: script, language: js, from: orders, primary_key: id, script: "function process(row) { return row }"}
  tagged: {type: sql, primary_key: id, sql: "SELECT id, 'topic' AS pipeline FROM scripted"}
sinks:
  out: {type: blackhole, from: tagged}
"""
    file = csv_to_print(tmp_path / "orders" / "*.csv", "out")
    failing = file.replace("SELECT id,", "SELECT CAST(concat('x', id) AS INT) AS n, id,")
    churn = Churn(server, server.start(), {"topic": topic, "failing": failing})
    churn.run(FIRST)
    before = held(server)
    churn.run(CYCLES)
    found = [before]

    def is_as_before() -> bool:
        found.append(held(server))
        return found[-1].is_like(before)

    with suppress(AssertionError):  # what is left is collected soon
        server.eventually(is_as_before, 20)
    assert found[-1].is_like(before), found
