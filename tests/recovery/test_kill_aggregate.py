"""Two Kafka topics → UNION ALL → aggregate in Postgres, killed with -9: at the end every insert was added once and
every delete taken away once."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from typing import Any

import psycopg
import pytest

from streamling.dev.topics import Message, consume, produce
from tests.connectors.kafka.source_driver import Topic
from tests.recovery.accounts import Command

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: enough for every run of the suite; STREAMLING_TEST_KILLS=30 for a longer look
KILLS = int(os.environ.get("STREAMLING_TEST_KILLS", "2"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
TOPICS = ("killed-deposits", "killed-withdrawals")

#: balance, how many rows it is of, how many values
Totals = dict[str, tuple[int, int, int]]


def pipeline_file() -> str:
    columns = {"id": "string", "account": "string", "cents": "int64"}
    # small batches: what comes again after a kill comes in many of them
    source = {"type": "kafka", "primary_key": "id", "data_format": "json", "schema": columns, "batch_size": 150}
    union = " UNION ALL ".join(f"SELECT * FROM t{number}" for number in range(len(TOPICS)))
    balances = {
        "type": "postgres_aggregate",
        "from": "transfers",
        "schema": "killed_aggregate",
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
    nodes: dict[str, Any] = {
        "sources": {f"t{number}": {**source, "topic": topic} for number, topic in enumerate(TOPICS)},
        "transforms": {"transfers": {"type": "sql", "primary_key": "id", "sql": union}},
        "sinks": {"out": balances},
    }
    return json.dumps(nodes)


class Load:
    """Transfers of a few accounts, some of which are taken back later, written until it is stopped."""

    def __init__(self, topics: list[Topic], chance: random.Random) -> None:
        self._topics = topics
        self._chance = chance
        self._open: dict[str, list[dict[str, Any]]] = {topic.name: [] for topic in topics}
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.wait(0.05):
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


def expected(topics: list[Topic]) -> Totals:
    totals: Totals = {}
    for message in (message for topic in topics for message in consume(topic.kafka.brokers, topic.name)):
        row, sign = json.loads(message.value or b""), -1 if message.header("dbz.op") == b"d" else 1
        balance, rows, values = totals.get(row["account"], (0, 0, 0))
        totals[row["account"]] = (balance + sign * row["cents"], rows + sign, values + sign)
    return totals


def stored(dsn: str) -> Totals:
    with psycopg.connect(dsn) as connection:
        try:
            rows = connection.execute(
                "SELECT account, balance, transfers, mean_count FROM killed_aggregate.balances WHERE mean_sum = balance"
            ).fetchall()
        except psycopg.errors.UndefinedTable:
            return {}
    return {account: (balance, count, values) for account, balance, count, values in rows}


def test_every_row_counts_once_after_many_kills(tmp_path, kafka, registry, postgres):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    topics = [Topic(kafka, registry, name=name) for name in TOPICS]
    variables = {**kafka.variables(), **registry.variables(), **postgres.variables()}
    # one stores positions so rarely that everything comes again, the other so often that it cleans up meanwhile
    rarely, often = (
        Command(tmp_path, {**variables, "STREAMLING__CHECKPOINT_INTERVAL_SEC": seconds}) for seconds in ("60", "0.1")
    )
    (tmp_path / "pipeline.yaml").write_text(pipeline_file())
    try:
        with Load(topics, random.Random(SEED + 1)):
            for number in range(KILLS):
                pipeline, before = (often if number % 2 else rarely), stored(postgres.dsn)
                pipeline.start()
                if number < 2 or chance.random() < 0.8:  # most kills while rows are written, some during the start
                    pipeline.eventually(lambda before=before: stored(postgres.dsn) != before)
                    time.sleep(chance.random() * 3)
                else:
                    time.sleep(chance.random() * 5)
                pipeline.kill()
        wanted = expected(topics)
        often.start()
        often.eventually(lambda: stored(postgres.dsn) == wanted)
        often.drain()
    finally:
        rarely.end()
        often.end()
    assert stored(postgres.dsn) == wanted
