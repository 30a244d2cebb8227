"""Kafka → SQL → ClickHouse under load: killed with -9 again and again, while the server fails and drops connections. At
the end the tables are what the topics say, and no row was inserted twice."""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any

import pytest

from streamling.connectors.clickhouse.errors import UNKNOWN_TABLE, ServerError
from streamling.dev.services.clickhouse import LocalClickHouse
from streamling.dev.services.topics import consume
from tests.connectors.clickhouse.driver import Database
from tests.connectors.kafka.source_driver import Topic
from tests.harness.clickhouse import clear_faults, inject_fault, pending_faults
from tests.harness.commands import Command, Nodes
from tests.recovery import accounts
from tests.recovery.accounts import AccountLoad, account_nodes
from tests.recovery.load import Load, NumberedLoad

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: enough for every run of the suite; `make soak` sets more
KILLS = int(os.environ.get("STREAMLING_TEST_CLICKHOUSE_KILLS", "1"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261118"))

FAULTS: list[dict[str, Any]] = [
    {"action": "close_before"},
    {"action": "close_after"},
    {"action": "error", "code": 252, "name": "TOO_MANY_PARTS"},
    {"action": "error", "code": 242, "name": "TABLE_IS_READ_ONLY"},
    {"action": "exception", "code": 210, "name": "NETWORK_ERROR"},
]


class ClickLoad(NumberedLoad):
    """Rows that are inserted once and never changed."""

    def produce_some(self) -> None:
        self.produce_rows([self._row() for _ in range(self._chance.randrange(1, 200))])

    def _row(self) -> dict[str, Any]:
        page = None if self._chance.random() < 0.2 else "x" * self._chance.randrange(20)
        return {"id": self.next_number(), "page": page}


class Faults(Load):
    """Faults of the server, every second or so. They do not pile up while the pipeline is not there to suffer them."""

    pause = 1.0

    def __init__(self, server: LocalClickHouse, chance: random.Random) -> None:
        super().__init__()
        self._server = server
        self._chance = chance

    def produce_some(self) -> None:
        if not pending_faults(self._server):
            statement = self._chance.choice(["INSERT INTO", "INSERT INTO", "ALTER TABLE"])
            inject_fault(self._server, **self._chance.choice(FAULTS), match=statement)


def nodes(accounts_topic: Topic, clicks_topic: Topic) -> Nodes:
    sink = {"type": "clickhouse", "primary_key": "id", "batch_flush_interval": "200ms"}
    small = {**sink, "batch_size": 150}
    pipeline = account_nodes(
        accounts_topic,
        {
            "appended": {**small, "table": "appended"},
            # each batch is a mutation
            "deleted": {**sink, "table": "deleted", "append_only_mode": False, "parallelism": 2},
        },
    )
    pipeline["sources"]["clicks"] = {
        "type": "kafka",
        "topic": clicks_topic.name,
        "data_format": "json",
        "schema": {"id": "int64", "page": "string"},
        "primary_key": "id",
    }
    pipeline["sinks"]["clicks_table"] = {**small, "from": "clicks", "table": "clicks"}
    return pipeline


class Tables:
    """What is in ClickHouse."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def accounts(self, table: str) -> accounts.Table:
        return {id: (owner, cents) for id, owner, cents in self._rows(f"SELECT id, owner, cents FROM {table} FINAL")}

    def clicks(self) -> list[tuple[int, str | None]]:
        """All rows that were ever inserted."""
        return self._rows("SELECT id, page FROM clicks ORDER BY id")

    def count(self) -> int:
        found = self._rows("SELECT count() FROM clicks")
        return int(found[0][0]) if found else 0

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return self._database.rows(sql)
        except ServerError as error:
            if error.code != UNKNOWN_TABLE:
                raise
            return []


def test_tables_are_what_the_topics_say_and_no_row_is_inserted_twice(tmp_path, kafka, registry, local_clickhouse):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    account_topic = Topic(kafka, registry, name="fire-accounts")
    click_topic = Topic(kafka, registry, name="fire-clicks")
    with Database.created(local_clickhouse) as database:
        database.execute(
            # a table that keeps every row, unlike those that replace rows by key
            "CREATE TABLE clicks (id Int64, page Nullable(String), is_deleted UInt8) ENGINE MergeTree ORDER BY id"
            " SETTINGS non_replicated_deduplication_window = 1000"
        )
        tables = Tables(database)
        sink = {f"STREAMLING__CLICKHOUSE_SINK__{name.upper()}": value for name, value in database.settings.items()}
        variables = {**kafka.variables(), **registry.variables(), **sink}
        # one stores positions so rarely that everything is replayed
        rarely, often = (
            Command(tmp_path, {**variables, "STREAMLING__CHECKPOINT_INTERVAL_SEC": seconds})
            for seconds in ("60", "0.5")
        )
        often.write(nodes(account_topic, click_topic))
        try:
            with (
                AccountLoad(account_topic, random.Random(SEED + 1)),
                ClickLoad(click_topic, random.Random(SEED + 2)),
                Faults(local_clickhouse, random.Random(SEED + 3)),
            ):
                for number in range(KILLS):
                    pipeline = often if number % 2 else rarely
                    kill_under_load(pipeline, tables, chance, in_the_middle=number == 0 or chance.random() < 0.8)
            clear_faults(local_clickhouse)
            expected = accounts.expected(account_topic)
            clicks = expected_clicks(click_topic)
            often.start()
            often.eventually(
                lambda: (
                    tables.accounts("appended") == tables.accounts("deleted") == expected
                    and len(tables.clicks()) >= len(clicks)
                ),
                seconds=300,
            )
            often.drain()
        finally:
            rarely.end()
            often.end()
        assert tables.accounts("appended") == tables.accounts("deleted") == expected
        assert tables.clicks() == clicks


def expected_clicks(topic: Topic) -> list[tuple[int, str | None]]:
    rows = [json.loads(message.value or b"") for message in consume(topic.kafka.brokers, topic.name)]
    return [(row["id"], row["page"]) for row in rows]


def kill_under_load(pipeline: Command, tables: Tables, chance: random.Random, *, in_the_middle: bool) -> None:
    """While rows are written, or during the start."""
    before = tables.count()
    pipeline.start()
    if in_the_middle:
        pipeline.eventually(lambda: tables.count() > before)
        time.sleep(chance.random() * 3)
    else:
        time.sleep(chance.random() * 8)
    pipeline.kill()
