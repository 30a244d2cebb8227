"""A query that ends the JVM of all pipelines: it is found, and the others work again. With real deaths."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamling.dev.services.topics import Message, create_topic, produce
from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.processes import children
from tests.serve.server import Client, ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: an array of two billion numbers
DEADLY = "size(sequence(id, id + 2000000000))"
DEATH = "Spark has stopped and is started again"


@pytest.fixture
def server(tmp_path) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path, {"STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.5"}) as process:
        yield process


def deadly(path: Path) -> str:
    return csv_to_print(path, "deadly").replace("SELECT id,", f"SELECT id, {DEADLY} AS n,")


def printed(server: ServeProcess, pipeline: str) -> list[int]:
    return sorted({row["id"] for row in server.rows() if row["pipeline"] == pipeline})


def is_ready(client: Client, name: str) -> bool:
    return client.get(f"/pipelines/default/{name}/ready").status == 200


def has_died_since_its_change(pipeline: dict[str, Any]) -> bool:
    return bool(pipeline["current"]) and int(pipeline["restarts"]) > 0


def test_the_culprit_fails_and_all_others_deliver(server, tmp_path):
    client, numbers = server.start(), itertools.count()

    def deliver(name: str) -> None:
        """A row that arrives now is delivered."""
        number = next(numbers)
        write_csv(tmp_path / name / f"{number}.csv", range(number, number + 1))
        server.eventually(lambda: number in printed(server, name))

    write_csv(tmp_path / "deadly" / "1.csv", range(1))
    for name in ("idle", "busy"):
        write_csv(tmp_path / name / "first.csv", range(1000, 1001))
        assert client.create(name, csv_to_print(tmp_path / name / "*.csv", name)).status == 201
        deliver(name)
    server.eventually(lambda: is_ready(client, "idle") and is_ready(client, "busy"))

    assert client.create("deadly", deadly(tmp_path / "deadly" / "*.csv")).status == 201
    server.eventually(lambda: not is_ready(client, "idle"))  # although it has nothing to read
    number = next(numbers)
    while client.state("deadly") != "failed":
        write_csv(tmp_path / "busy" / f"{number}.csv", range(number, number + 1))
        number = next(numbers)
        threading.Event().wait(0.2)
    deliver("idle")
    deliver("busy")
    server.eventually(lambda: is_ready(client, "idle") and is_ready(client, "busy"))

    culprit = client.pipeline("deadly")
    assert "its query ended the JVM" in culprit["error"]
    assert "the JVM ran out of heap" in culprit["error"]
    assert "isolation: process" in culprit["remedy"]
    assert client.pipeline("idle")["restarts"] <= 3
    deaths = server.log().count(DEATH)
    assert deaths <= 3

    # in a process of its own, it harms nobody
    body = {"definition": culprit["definition"], "isolation": "process", "size": "xs"}
    answer = client.request("PUT", "/pipelines/default/deadly", body, headers={"If-Match": culprit["etag"]})
    assert answer.status == 200, answer.text
    server.eventually(lambda: has_died_since_its_change(client.pipeline("deadly")))
    assert "ran out of heap" in client.pipeline("deadly")["error"]
    assert server.log().count(DEATH) == deaths
    assert client.request("DELETE", "/pipelines/default/deadly").status == 202
    server.eventually(lambda: client.state("deadly") == "absent")


def test_a_jvm_that_is_killed_makes_no_culprit_and_comes_back_without_a_pipeline(server, tmp_path):
    client = server.start()
    write_csv(tmp_path / "idle" / "1.csv", range(1))
    assert client.create("idle", csv_to_print(tmp_path / "idle" / "*.csv", "idle")).status == 201
    server.eventually(lambda: is_ready(client, "idle"))
    for restarts in (1, 2):
        (jvm,) = children(server.pid, "java")
        os.kill(jvm, signal.SIGKILL)
        server.eventually(lambda: not is_ready(client, "idle"))
        server.eventually(lambda restarts=restarts: client.pipeline("idle")["restarts"] == restarts)
        server.eventually(lambda: is_ready(client, "idle"))
    write_csv(tmp_path / "idle" / "2.csv", range(1, 2))
    server.eventually(lambda: printed(server, "idle") == [0, 1])

    assert client.request("DELETE", "/pipelines/default/idle").status == 202
    server.eventually(lambda: client.state("idle") == "absent")
    (jvm,) = children(server.pid, "java")
    os.kill(jvm, signal.SIGKILL)
    server.eventually(lambda: client.get("/readyz", prefix="").status == 503)
    server.eventually(lambda: client.get("/readyz", prefix="").status == 200)


def stream_to_print(topic: str, expression: str) -> str:
    return f"""
sources:
  orders: {{type: kafka, topic: {topic}, data_format: json, primary_key: id, schema: {{id: int64}}}}
transforms:
  shaped: {{type: sql, primary_key: id, sql: "SELECT id, {expression} AS n FROM orders"}}
sinks:
  out: {{type: print, from: shaped}}
"""


@pytest.mark.services
def test_a_stream_that_ends_the_jvm_is_found_among_streams_that_wait(kafka, tmp_path):
    """Their batches are evaluated in the JVM, without Python."""
    topics = {name: f"deaths-{name}-{os.getpid()}" for name in ("deadly", "idle")}
    for topic in topics.values():
        create_topic(kafka.brokers, topic)
        produce(kafka.brokers, topic, [Message(b'{"id": 1}', b"1")])
    with ServeProcess(tmp_path, {"STREAMLING__KAFKA_SOURCE__BROKERS": kafka.brokers}) as server:
        client = server.start()
        assert client.create("idle", stream_to_print(topics["idle"], "1")).status == 201
        server.eventually(lambda: is_ready(client, "idle"))
        assert client.create("deadly", stream_to_print(topics["deadly"], DEADLY)).status == 201
        server.eventually(lambda: client.state("deadly") == "failed")
        assert "its query ended the JVM" in client.pipeline("deadly")["error"]
        server.eventually(lambda: is_ready(client, "idle"))
