"""What the pipeline of `test_kills.py` does, part by part: nodes, the messages they read, and what has to be delivered
by what is in the topics."""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import psycopg

from streamling.dev.services.topics import Message, consume, produce
from tests.connectors.kafka.source_driver import Topic
from tests.harness.commands import Nodes
from tests.recovery import accounts
from tests.recovery.accounts import AccountLoad
from tests.recovery.load import Load, NumberedLoad


class Scenario(ABC):
    #: whether rows are delivered before a checkpoint asks for them
    delivers_at_once = True

    @abstractmethod
    def nodes(self) -> Nodes: ...

    @abstractmethod
    def load(self, chance: random.Random) -> Load: ...

    @abstractmethod
    def delivered(self) -> object:
        """What is outside, where a kill of the pipeline does not reach it."""

    @abstractmethod
    def expected(self) -> object:
        """What has to be there at the end, by what is in the topics."""


class Accounts(Scenario):
    """Inserts, updates and deletes become a table."""

    def __init__(self, topic: Topic, dsn: str, schema: str) -> None:
        self.topic = topic
        self._dsn = dsn
        self._schema = schema

    def nodes(self) -> Nodes:
        table = {"type": "postgres", "schema": self._schema, "table": "accounts"}
        return accounts.account_nodes(self.topic, {"accounts_table": table})

    def load(self, chance: random.Random) -> Load:
        return AccountLoad(self.topic, chance)

    def delivered(self) -> accounts.Table:
        return accounts.stored(self._dsn, self._schema)

    def expected(self, count: int | None = None) -> accounts.Table:
        """By the first ``count`` messages, or by all of them."""
        return accounts.expected(self.topic, count)


#: balance, how many rows it is of, how many values
Totals = dict[str, tuple[int, int, int]]


class Balances(Scenario):
    """Transfers of two topics are aggregated: every insert is added once, every delete taken away once."""

    def __init__(self, topics: list[Topic], dsn: str, schema: str) -> None:
        self._topics = topics
        self._dsn = dsn
        self._schema = schema

    def nodes(self) -> Nodes:
        columns = {"id": "string", "account": "string", "cents": "int64"}
        # small batches: what is replayed after a kill arrives in many of them
        source = {"type": "kafka", "primary_key": "id", "data_format": "json", "schema": columns, "batch_size": 150}
        union = " UNION ALL ".join(f"SELECT * FROM t{number}" for number in range(len(self._topics)))
        balances = {
            "type": "postgres_aggregate",
            "from": "transfers",
            "schema": self._schema,
            "landing_table": "log",
            "agg_table": "balances",
            "parallelism": 2,
            "group_by": {"account": {}},
            "aggregate": {
                "balance": {"from": "cents", "fn": "sum"},
                "transfers": {"fn": "count"},
                "mean": {"from": "cents", "fn": "avg"},
            },
        }
        return {
            "sources": {f"t{number}": {**source, "topic": topic.name} for number, topic in enumerate(self._topics)},
            "transforms": {"transfers": {"type": "sql", "primary_key": "id", "sql": union}},
            "sinks": {"balances": balances},
        }

    def load(self, chance: random.Random) -> Load:
        return TransferLoad(self._topics, chance)

    def delivered(self) -> Totals:
        columns = "account, balance, transfers, mean_count"
        query = f"SELECT {columns} FROM {self._schema}.balances WHERE mean_sum = balance"
        with psycopg.connect(self._dsn) as connection:
            try:
                rows = connection.execute(query.encode()).fetchall()
            except psycopg.errors.UndefinedTable:
                return {}
        return {account: (balance, count, values) for account, balance, count, values in rows}

    def expected(self) -> Totals:
        totals: Totals = {}
        for message in (message for topic in self._topics for message in consume(topic.kafka.brokers, topic.name)):
            row, sign = json.loads(message.value or b""), -1 if message.header("dbz.op") == b"d" else 1
            balance, rows, values = totals.get(row["account"], (0, 0, 0))
            totals[row["account"]] = (balance + sign * row["cents"], rows + sign, values + sign)
        return totals


class TransferLoad(Load):
    """Transfers of a few accounts, some of which are taken back later."""

    def __init__(self, topics: list[Topic], chance: random.Random) -> None:
        super().__init__()
        self._topics = topics
        self._chance = chance
        self._open: dict[str, list[dict[str, Any]]] = {topic.name: [] for topic in topics}
        self._number = 0

    def produce_some(self) -> None:
        topic = self._chance.choice(self._topics)
        messages = [self._message(topic.name) for _ in range(self._chance.randrange(1, 60))]
        produce(topic.kafka.brokers, topic.name, messages)

    def _message(self, topic: str) -> Message:
        rows = self._open[topic]
        if rows and self._chance.random() < 0.3:
            return _message(b"d", rows.pop(self._chance.randrange(len(rows))))
        self._number += 1
        account, cents = f"a{self._chance.randrange(7)}", self._chance.randrange(-(10**9), 10**9)
        rows.append({"id": f"r{self._number}", "account": account, "cents": cents})
        return _message(b"c", rows[-1])


def _message(operation: bytes, row: dict[str, Any]) -> Message:
    return Message(json.dumps(row).encode(), headers=(("dbz.op", operation),))


class FirstValues(Scenario):
    """Deduplication with a table in Postgres: the first row of every value is delivered, no later one ever is."""

    #: the journal writes when it is flushed
    delivers_at_once = False

    def __init__(self, topic: Topic, dsn: str, schema: str, journal: Path) -> None:
        self._topic = topic
        self._dsn = dsn
        self._schema = schema
        self._journal = journal

    def nodes(self) -> Nodes:
        columns = {"id": "int64", "v": "string"}
        rows = {"type": "kafka", "topic": self._topic.name, "primary_key": "id", "data_format": "json"}
        seen = {
            "type": "dynamic_table",
            "backend_type": "Postgres",
            "backend_entity_name": "seen",
            "schema": self._schema,
            "sql": "SELECT v FROM rows",
        }
        first = "SELECT id, v FROM rows WHERE NOT dynamic_table_check('seen', v)"
        return {
            "sources": {"rows": {**rows, "schema": columns}},
            "transforms": {"seen": seen, "first": {"type": "sql", "primary_key": "id", "sql": first}},
            "sinks": {"journal": {"type": "journal", "from": "first", "file": str(self._journal)}},
        }

    def load(self, chance: random.Random) -> Load:
        return ValueLoad(self._topic, chance)

    def delivered(self) -> set[tuple[str, int]]:
        lines = self._journal.read_text().splitlines(keepends=True) if self._journal.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        return {(row["v"], row["id"]) for row in rows}

    def expected(self) -> set[tuple[str, int]]:
        firsts: dict[str, int] = {}
        for message in consume(self._topic.kafka.brokers, self._topic.name):
            row = json.loads(message.value or b"")
            firsts.setdefault(row["v"], row["id"])
        return set(firsts.items())

    def table(self) -> set[str]:
        with psycopg.connect(self._dsn) as connection:
            return {value for (value,) in connection.execute(f"SELECT value FROM {self._schema}.seen".encode())}


class ValueLoad(NumberedLoad):
    """Rows whose values repeat."""

    def produce_some(self) -> None:
        self.produce_rows(self._row() for _ in range(100))

    def _row(self) -> dict[str, Any]:
        id = self.next_number()
        return {"id": id, "v": f"v{self._chance.randrange(20 + id // 2)}"}
