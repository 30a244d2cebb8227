"""Accounts whose history is in a ClickHouse table and whose changes are in a topic, from which the table is loaded with
some delay; and what a table of them must hold."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import psycopg

from streamling.dev.services.avro import decode
from streamling.dev.services.topics import Message, consume, produce
from tests.connectors.hybrid.driver import Database
from tests.connectors.kafka.source_driver import Topic, framed
from tests.harness.commands import Nodes
from tests.recovery.accounts import SCHEMA
from tests.recovery.load import Load

PARTITIONS = 2

#: id → owner and cents of accounts that have been changed; None if they have been closed
Changes = dict[int, tuple[str, int] | None]


class Archive:
    """``rows`` accounts in the table ``accounts``; one that was never changed belongs to ``h<id>`` and has 7 × id
    cents."""

    def __init__(self, database: Database, rows: int) -> None:
        self.database = database
        self.rows = rows
        database.execute(
            "CREATE TABLE accounts (id Int64, owner String, cents Int64, version UInt64, is_deleted UInt8) "
            "ENGINE = ReplacingMergeTree(version, is_deleted) ORDER BY id",
            f"INSERT INTO accounts SELECT number, concat('h', toString(number)), number * 7, 0, 0 FROM numbers({rows})",
        )
        database.offsets({})

    def nodes(self, topic: Topic, schema: str) -> Nodes:
        source = {
            "type": "hybrid",
            "primary_key": "id",
            "bounded_sources": [{"source_type": "clickhouse", "table_name": "accounts"}],
            "unbounded_source": {"source_type": "kafka", "topic": topic.name},
            "offset_table": {"topic_name": topic.name},
        }
        sql = "SELECT id, upper(owner) AS owner, cents + 1 AS cents FROM accounts"
        sink = {"type": "postgres", "from": "shaped", "schema": schema, "table": "accounts", "batch_size": 2000}
        return {
            "sources": {"accounts": source},
            "transforms": {"shaped": {"type": "sql", "primary_key": "id", "sql": sql}},
            "sinks": {"table": sink},
        }


class ArchiveLoad(Load):
    """Opens, changes and closes accounts in the topic. What was written one round ago is then loaded into the table,
    and after that its offset is recorded."""

    def __init__(self, topic: Topic, archive: Archive, chance: random.Random) -> None:
        super().__init__()
        self._topic = topic
        self._archive = archive
        self._chance = chance
        self._id = topic.register(SCHEMA)
        self._closed: set[int] = set()
        self._version = 0
        self._offsets = [0] * PARTITIONS
        #: rounds that are in the topic and not in the table: rows as SQL, and the offsets after them
        self._waiting: deque[tuple[list[str], list[int]]] = deque()
        self.loaded = 0

    def record_offsets(self) -> None:
        """Before the first change: everything up to here is in the table."""
        self._record([0] * PARTITIONS)

    def produce_some(self) -> None:
        rows, messages = [], []
        for _ in range(self._chance.randrange(1, 150)):
            row, message = self._operation()
            rows.append(row)
            messages.append(message)
        produce(self._topic.kafka.brokers, self._topic.name, messages)
        self._waiting.append((rows, list(self._offsets)))
        if len(self._waiting) > 2:
            self._load(*self._waiting.popleft())

    def _operation(self) -> tuple[str, Message]:
        id = self._chance.randrange(self._archive.rows + 200)
        is_open = (id < self._archive.rows) != (id in self._closed)
        closes = is_open and self._chance.random() < 0.3
        if closes or not is_open:
            self._closed ^= {id}
        self._version += 1
        account = {"id": id, "owner": f"u{self._version}", "cents": self._chance.randrange(10**12)}
        operation = b"d" if closes else b"u" if is_open else b"c"
        partition = id % PARTITIONS
        self._offsets[partition] += 1
        row = f"({id}, '{account['owner']}', {account['cents']}, {self._version}, {int(closes)})"
        value = framed(self._id, SCHEMA, account)
        return row, Message(value, headers=(("dbz.op", operation),), partition=partition)

    def _load(self, rows: list[str], offsets: list[int]) -> None:
        self._archive.database.execute(f"INSERT INTO accounts VALUES {', '.join(rows)}")
        self._record(offsets)
        self.loaded += len(rows)

    def _record(self, offsets: list[int]) -> None:
        name = self._topic.name
        self._archive.database.offsets({(name, partition): offset for partition, offset in enumerate(offsets)})


def expected_changes(topic: Topic) -> Changes:
    """What the messages in the topic make of the accounts."""
    changes: Changes = {}
    for message in consume(topic.kafka.brokers, topic.name):
        assert message.value is not None
        row: Any = decode(topic.registry, message.value)
        changes[row["id"]] = None if message.header("dbz.op") == b"d" else (row["owner"].upper(), row["cents"] + 1)
    return changes


def stored_changes(dsn: str, schema: str, rows: int) -> Changes:
    """The accounts in Postgres that differ from the first ``rows`` in the table as they were at the start; None for
    those that are missing."""
    changed = f"SELECT id, owner, cents FROM {schema}.accounts WHERE owner <> 'H' || id OR cents <> id * 7 + 1"
    missing = (
        f"SELECT g FROM generate_series(0, {rows - 1}) AS g WHERE NOT EXISTS "
        f"(SELECT 1 FROM {schema}.accounts WHERE id = g)"
    )
    with psycopg.connect(dsn) as connection:
        found: Changes = {id: (owner, cents) for id, owner, cents in connection.execute(changed.encode())}
        return found | {id: None for (id,) in connection.execute(missing.encode())}


def differences(expected: Changes, stored: Changes, rows: int) -> list[str]:
    """What is wrong, at most ten lines; an account that was opened and closed again is the same as none."""
    wanted = {id: change for id, change in expected.items() if change is not None or id < rows}
    ids = [id for id in sorted({*wanted, *stored}) if wanted.get(id, "unchanged") != stored.get(id, "unchanged")]
    return [f"{id}: expected {wanted.get(id, 'unchanged')}, found {stored.get(id, 'unchanged')}" for id in ids[:10]]
