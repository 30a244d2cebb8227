"""Kafka → deduplication with a table in Postgres → journal, killed with -9: the first row of every value comes out,
no row of it later in the topic ever does."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path

import psycopg
import pytest

from streamling.dev.topics import Message, consume, produce
from tests.connectors.kafka.source_driver import Topic
from tests.recovery.accounts import Command

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: enough for every run of the suite; STREAMLING_TEST_KILLS=30 for a longer look
KILLS = int(os.environ.get("STREAMLING_TEST_KILLS", "2"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
PLUGIN = Path(__file__).with_name("journal_plugin.py")

PIPELINE = """
sources:
  rows: {{type: kafka, topic: {topic}, primary_key: id, data_format: json, schema: {{id: int64, v: string}}}}
transforms:
  seen:
    type: dynamic_table
    backend_type: Postgres
    backend_entity_name: seen
    schema: {schema}
    sql: SELECT v FROM rows
  first: {{type: sql, primary_key: id, sql: "SELECT id, v FROM rows WHERE NOT dynamic_table_check('seen', v)"}}
sinks:
  out: {{type: journal, from: first, file: out.jsonl}}
"""


class Load:
    """Rows whose values repeat, written until it is stopped."""

    def __init__(self, topic: Topic, chance: random.Random) -> None:
        self._topic = topic
        self._chance = chance
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._next = 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.wait(0.1):
            produce(self._topic.kafka.brokers, self._topic.name, [self._row() for _ in range(100)])

    def _row(self) -> Message:
        self._next += 1
        row = {"id": self._next, "v": f"v{self._chance.randrange(20 + self._next // 2)}"}
        return Message(json.dumps(row).encode())


def first_ids(topic: Topic) -> dict[str, int]:
    firsts: dict[str, int] = {}
    for message in consume(topic.kafka.brokers, topic.name):
        row = json.loads(message.value or b"")
        firsts.setdefault(row["v"], row["id"])
    return firsts


def delivered(folder: Path) -> set[tuple[str, int]]:
    path = folder / "out.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return {(row["v"], row["id"]) for row in rows}


def test_the_first_row_of_every_value_comes_out_after_many_kills(tmp_path, kafka, registry, postgres):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    topic = Topic(kafka, registry, name="killed-values")
    variables = {**kafka.variables(), **registry.variables(), **postgres.variables()}
    settings = {"STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.3", "STREAMLING__PLUGIN__PATH": str(PLUGIN)}
    pipeline = Command(tmp_path, {**variables, **settings})
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(topic=topic.name, schema="killed_tables"))
    try:
        with Load(topic, random.Random(SEED + 1)):
            for _ in range(KILLS):
                before = delivered(tmp_path)
                pipeline.start()
                pipeline.eventually(lambda before=before: delivered(tmp_path) != before)
                time.sleep(chance.random() * 2)
                pipeline.kill()
        wanted = first_ids(topic)
        pipeline.start()
        pipeline.eventually(lambda: delivered(tmp_path) >= set(wanted.items()))
        pipeline.drain()
    finally:
        pipeline.end()
    assert delivered(tmp_path) == set(wanted.items())
    with psycopg.connect(postgres.dsn) as connection:
        stored = connection.execute("SELECT value FROM killed_tables.seen").fetchall()
    assert {value for (value,) in stored} == set(wanted)
