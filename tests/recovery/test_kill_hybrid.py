"""A year of history from ClickHouse, then the topic, while the topic grows and the table is loaded from it: stopped and
killed while the table is read, at the switch, and while the topic is read. No row is missing at the end."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from streamling.engine.state.sqlite import SqliteState
from tests.connectors.hybrid.driver import Database
from tests.connectors.kafka.source_driver import Topic
from tests.harness.commands import Command
from tests.recovery.archive import PARTITIONS, Archive, ArchiveLoad, differences, expected_changes, stored_changes

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: enough for every run of the suite; `make soak` sets more
ROWS = int(os.environ.get("STREAMLING_TEST_HYBRID_ROWS", "50000"))
KILLS = int(os.environ.get("STREAMLING_TEST_HYBRID_KILLS", "1"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261117"))
SCHEMA = "killed_hybrid"
SWITCHED = "all tables have been read; continuing with the topic"


class Backfill(Command):
    """The pipeline, and what is outside of it."""

    def __init__(self, folder: Path, env: dict[str, str], dsn: str) -> None:
        super().__init__(folder, env)
        self._folder = folder
        self._dsn = dsn

    def count(self) -> int:
        """Rows in Postgres."""
        with psycopg.connect(self._dsn) as connection:
            try:
                row = connection.execute(f"SELECT count(*) FROM {SCHEMA}.accounts".encode()).fetchone()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return 0
        assert row is not None
        return int(row[0])

    def changes(self) -> dict:
        return stored_changes(self._dsn, SCHEMA, ROWS)

    def position(self) -> int:
        """The first id in the table that has not been read."""
        with SqliteState("pipeline", self._folder / "state.db") as state:
            return int(state.get("clickhouse_source:accounts:v1")["args"][0])

    def has_switched(self) -> bool:
        return SWITCHED in self.log()


@pytest.fixture
def pipeline(tmp_path, kafka, registry, postgres, clickhouse):
    database = Database(clickhouse, f"killed_hybrid_{SEED}")
    env = {
        **kafka.variables(),
        **registry.variables(),
        **postgres.variables(),
        **database.variables(),
        # many requests, so that a stop falls between two of them
        "STREAMLING__CLICKHOUSE_SOURCE__SORT_KEY_RANGE": str(max(100, ROWS // 50)),
        "STREAMLING__CLICKHOUSE_SOURCE__PAGE_SIZE": str(ROWS // 50),
        "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.3",
    }
    topic = Topic(kafka, registry, name="killed-hybrid", partitions=PARTITIONS)
    archive = Archive(database, ROWS)
    made = Backfill(tmp_path, env, postgres.dsn)
    made.write(archive.nodes(topic, SCHEMA))
    yield made, topic, archive
    made.end()


def test_the_table_is_complete_after_kills_in_every_phase(pipeline):
    print(f"seed {SEED}")
    command, topic, archive = pipeline
    chance = random.Random(SEED)
    load = ArchiveLoad(topic, archive, random.Random(SEED + 1))
    load.record_offsets()
    stop_in_the_table(command)
    moments = kills(chance)
    with load:
        for moment in moments:
            command.start()
            moment(command, chance)
            command.kill()
        command.start()
        command.eventually(command.has_switched)
        command.eventually(lambda: load.loaded > 500)
    expected = expected_changes(topic)
    command.eventually(lambda: not differences(expected, command.changes(), ROWS), 240)
    command.drain()
    assert differences(expected, command.changes(), ROWS) == []
    assert load.loaded > 500


def stop_in_the_table(command: Backfill) -> None:
    """SIGTERM while the table is read: exit code 0, and exactly the rows before the stored position."""
    command.start()
    command.eventually(lambda: command.count() > 0)
    command.drain()
    position = command.position()
    assert 0 < position < ROWS
    assert command.count() == position
    assert command.changes() == dict.fromkeys(range(position, ROWS))


def kills(chance: random.Random) -> list[Callable[[Backfill, random.Random], None]]:
    """Moments to wait for, in an order that is possible: half of them while the table is read, one at the switch, the
    others afterwards or during the start."""
    in_table = [while_the_table_is_read] * (KILLS // 2)
    later = [chance.choice((while_the_topic_is_read, during_the_start)) for _ in range(KILLS - len(in_table) - 1)]
    return [*in_table, at_the_switch, *later]


def while_the_table_is_read(command: Backfill, chance: random.Random) -> None:
    before = command.count()
    command.eventually(lambda: command.count() > before or command.has_switched())
    time.sleep(chance.random() * 0.5)


def at_the_switch(command: Backfill, chance: random.Random) -> None:
    command.eventually(command.has_switched)
    time.sleep(chance.random() * 0.5)


def while_the_topic_is_read(command: Backfill, chance: random.Random) -> None:
    before = command.changes()
    command.eventually(lambda: command.changes() != before)
    time.sleep(chance.random() * 2)


def during_the_start(command: Backfill, chance: random.Random) -> None:
    time.sleep(chance.random() * 6)
