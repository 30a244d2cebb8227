"""Accounts that are opened, changed and closed in a topic, the pipeline that keeps tables of them, and what those
tables must hold by what is in the topic."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psycopg

from streamling.dev.services.avro import decode
from streamling.dev.services.topics import Message, consume, produce
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import Topic, framed, table_of
from tests.harness.commands import Nodes
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
        self.produce_operations(self._chance.randrange(1, 400))

    def produce_operations(self, count: int) -> None:
        messages = [self._operation() for _ in range(count)]
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


class BurstyAccountLoad(AccountLoad):
    """Sometimes more messages than the driver evaluates at once: batches switch between driver and Spark jobs."""

    def produce_some(self) -> None:
        burst = self._chance.random() < 0.1
        self.produce_operations(self._chance.randrange(12_000, 30_000) if burst else self._chance.randrange(1, 50))


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
    return {id: (row["owner"], row["cents"]) for id, row in table_of(topic, name).items()}


def stored(dsn: str, schema: str) -> Table:
    """The rows in Postgres; none when there is no table yet."""
    with psycopg.connect(dsn) as connection:
        try:
            rows = connection.execute(f"SELECT id, owner, cents FROM {schema}.accounts".encode()).fetchall()
        except psycopg.errors.UndefinedTable:
            return {}
    return {key: (owner, cents) for key, owner, cents in rows}
