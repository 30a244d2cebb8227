"""Kafka → SQL → Postgres under load, killed with -9 again and again: at the end the table is what the topic says."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from streamling.dev.topics import Message, produce
from tests.sources.kafka_driver import Topic, framed

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: enough for every run of the suite; STREAMLING_TEST_KILLS=30 for a longer look
KILLS = int(os.environ.get("STREAMLING_TEST_KILLS", "10"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
SCHEMA = {
    "type": "record",
    "name": "account",
    "fields": [{"name": "id", "type": "long"}, {"name": "owner", "type": "string"}, {"name": "cents", "type": "long"}],
}
PIPELINE = {
    "transforms": {
        "shaped": {
            "type": "sql",
            "primary_key": "id",
            "sql": "SELECT id, upper(owner) AS owner, cents + 1 AS cents FROM accounts",
        }
    },
    "sinks": {"out": {"type": "postgres", "from": "shaped", "schema": "killed", "table": "accounts"}},
}


class Load:
    """Writes inserts, updates and deletes of a few hundred keys, and knows what a table of them must hold."""

    def __init__(self, topic: Topic, chance: random.Random) -> None:
        self.model: dict[int, tuple[str, int]] = {}
        self._topic = topic
        self._id = topic.register(SCHEMA)
        self._chance = chance
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.wait(0.05):
            messages = [self._operation() for _ in range(self._chance.randrange(1, 400))]
            produce(self._topic.kafka.brokers, self._topic.name, messages)

    def _operation(self) -> Message:
        key = self._chance.randrange(300)
        row = {"id": key, "owner": f"o{self._chance.randrange(1000)}", "cents": self._chance.randrange(10**12)}
        if key in self.model and self._chance.random() < 0.3:
            del self.model[key]
            op = b"d"
        else:
            op = b"u" if key in self.model else b"c"
            self.model[key] = (row["owner"].upper(), row["cents"] + 1)
        return Message(framed(self._id, SCHEMA, row), headers=(("dbz.op", op),))


def table(dsn: str) -> dict[int, tuple[str, int]]:
    with psycopg.connect(dsn) as connection:
        try:
            rows = connection.execute("SELECT id, owner, cents FROM killed.accounts").fetchall()
        except psycopg.errors.UndefinedTable:
            return {}
    return {key: (owner, cents) for key, owner, cents in rows}


def start(folder: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "streamling", "run", "pipeline.yaml"]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=log)


def test_the_table_is_what_the_topic_says_after_many_kills(tmp_path, kafka, registry, postgres):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    topic = Topic(kafka, registry, name="killed-accounts")
    source = {"type": "kafka", "topic": topic.name, "primary_key": "id"}
    (tmp_path / "pipeline.yaml").write_text(json.dumps({"sources": {"accounts": source}, **PIPELINE}))
    env = {**os.environ, **kafka.variables(), **registry.variables(), **postgres.variables()}
    env["STREAMLING__CHECKPOINT_INTERVAL_SEC"] = "0.3"
    load = Load(topic, random.Random(SEED + 1))
    load.start()
    try:
        for _ in range(KILLS):
            before = table(postgres.dsn)
            process = start(tmp_path, env)
            if chance.random() < 0.75:  # most kills while rows are written, some during the start
                deadline = time.monotonic() + 120
                while table(postgres.dsn) == before and process.poll() is None:
                    assert time.monotonic() < deadline, (tmp_path / "log.txt").read_text()[-3000:]
                    time.sleep(0.1)
                time.sleep(chance.random() * 1.5)
            else:
                time.sleep(chance.random() * 5)
            assert process.poll() is None, (tmp_path / "log.txt").read_text()[-3000:]
            process.send_signal(signal.SIGKILL)
            process.wait()
    finally:
        load.stop()
    process = start(tmp_path, env)
    deadline = time.monotonic() + 120
    while table(postgres.dsn) != load.model and time.monotonic() < deadline:
        assert process.poll() is None, (tmp_path / "log.txt").read_text()[-3000:]
        time.sleep(0.3)
    process.terminate()
    assert process.wait(40) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    assert table(postgres.dsn) == load.model
