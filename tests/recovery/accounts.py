"""Accounts that are opened, changed and closed in a topic, the pipeline that keeps tables of them, and what those
tables must hold by what is in the topic."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from streamling.dev.avro import decode
from streamling.dev.topics import Message, consume, produce
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import Topic, framed
from tests.recovery.load import Load

SCHEMA = {
    "type": "record",
    "name": "account",
    "fields": [{"name": "id", "type": "long"}, {"name": "owner", "type": "string"}, {"name": "cents", "type": "long"}],
}
#: the same with one field more
WIDER = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
SQL = "SELECT id, upper(owner) AS owner, cents + 1 AS cents FROM accounts"

Table = dict[int, tuple[str, int]]
#: section of a pipeline file → name of a node → its fields
Nodes = dict[str, dict[str, Any]]


def account_nodes(topic: Topic, sinks: Mapping[str, Any]) -> Nodes:
    """A table of the accounts in ``topic``, written to each of the sinks."""
    return {
        "sources": {"accounts": {"type": "kafka", "topic": topic.name, "primary_key": "id"}},
        "transforms": {"shaped": {"type": "sql", "primary_key": "id", "sql": SQL}},
        "sinks": {name: {"from": "shaped", **sink} for name, sink in sinks.items()},
    }


class AccountLoad(Load):
    """Inserts, updates and deletes of a few hundred keys; a key stays on its partition."""

    def __init__(self, topic: Topic, chance: random.Random, partitions: int = 1) -> None:
        super().__init__()
        self._topic = topic
        self._partitions = partitions
        self._chance = chance
        self._schema: Any = SCHEMA
        self._id = topic.register(SCHEMA)
        self._open: set[int] = set()

    def widen(self, id: int) -> None:
        """From now on write with the schema ``id``, which is `WIDER`."""
        self._schema, self._id = WIDER, id

    def produce_some(self) -> None:
        messages = [self._operation() for _ in range(self._chance.randrange(1, 400))]
        # the broker may be unavailable: what the topic holds decides what is expected
        with suppress(StreamlingError):
            produce(self._topic.kafka.brokers, self._topic.name, messages)

    def _operation(self) -> Message:
        key = self._chance.randrange(300)
        row = {"id": key, "owner": f"o{self._chance.randrange(1000)}", "cents": self._chance.randrange(10**12)}
        if key in self._open and self._chance.random() < 0.3:
            self._open.discard(key)
            op = b"d"
        else:
            op = b"u" if key in self._open else b"c"
            self._open.add(key)
        value = framed(self._id, self._schema, row)
        return Message(value, headers=(("dbz.op", op),), partition=key % self._partitions)


def expected(topic: Topic, count: int | None = None) -> Table:
    """What a table of the topic's accounts holds after `SQL`, computed from the messages that are in it, or from the
    first ``count`` of them."""
    table: Table = {}
    for message in consume(topic.kafka.brokers, topic.name, limit=count):
        assert message.value is not None
        row = decode(topic.registry, message.value)
        if message.header("dbz.op") == b"d":
            table.pop(row["id"], None)
        else:
            table[row["id"]] = (row["owner"].upper(), row["cents"] + 1)
    return table


def written(topic: Topic, name: str) -> Table:
    """What a table of the messages that a Kafka sink wrote to the topic ``name`` holds."""
    table: Table = {}
    for message in consume(topic.kafka.brokers, name):
        assert message.value is not None
        row = decode(topic.registry, message.value)
        if message.header("dbz.op") == b"d":
            table.pop(row["id"], None)
        else:
            table[row["id"]] = (row["owner"], row["cents"])
    return table


def stored(dsn: str, schema: str) -> Table:
    """The rows in Postgres; none when there is no table yet."""
    with psycopg.connect(dsn) as connection:
        try:
            rows = connection.execute(f"SELECT id, owner, cents FROM {schema}.accounts".encode()).fetchall()
        except psycopg.errors.UndefinedTable:
            return {}
    return {key: (owner, cents) for key, owner, cents in rows}


class Command:
    """``streamling run`` in a folder of its own."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, topic: Topic, sinks: Mapping[str, Any]) -> None:
        self.write_nodes(account_nodes(topic, sinks))

    def write_nodes(self, nodes: Nodes) -> None:
        (self._folder / "pipeline.yaml").write_text(json.dumps(nodes))

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streamling", "run", "pipeline.yaml"]
        with (self._folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, env=self._env, stdout=subprocess.DEVNULL, stderr=log
            )
        return self._process

    def log(self) -> str:
        return (self._folder / "log.txt").read_text()

    def eventually(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        """Wait for what the running pipeline does."""
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while not condition():
            assert self._process.poll() is None, self.log()[-3000:]
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.1)

    def drain(self) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(40) == 0, self.log()[-3000:]

    def kill(self) -> None:
        """With -9, while it runs."""
        assert self._process is not None
        assert self._process.poll() is None, self.log()[-3000:]
        self.end()

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
