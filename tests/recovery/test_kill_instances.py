"""Two instances of Kafka → SQL → Postgres with one state, killed with -9 one or the other, also while they write: the
partitions move to the instance that is left, and at the end the table equals what is in the topic."""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from streamling.dev.services.postgres import LocalPostgres
from tests.connectors.kafka.source_driver import Topic
from tests.harness.commands import Command
from tests.recovery.accounts import BurstyAccountLoad, account_nodes, expected, stored

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: besides the last one, after which an instance is left alone; `make soak` sets more
KILLS = int(os.environ.get("STREAMLING_TEST_INSTANCE_KILLS", "0"))
SEEDS = int(os.environ.get("STREAMLING_TEST_INSTANCE_SEEDS", "1"))
PARTITIONS = 4
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))


class Instance(Command):
    """One of several processes with the same pipeline. Its sink has a name of its own, which the server sees."""

    def __init__(self, folder: Path, env: dict[str, str], topic: Topic, schema: str) -> None:
        folder.mkdir()
        super().__init__(folder, env)
        self.sink = f"out_{folder.name}"
        #: length of the log of earlier starts
        self._earlier = 0
        self.write(account_nodes(topic, {self.sink: {"type": "postgres", "schema": schema, "table": "accounts"}}))

    def start(self) -> subprocess.Popen[bytes]:
        process = super().start()
        self._earlier = len(self.log())
        return process

    def partitions(self) -> set[int]:
        """Those that it last said it reads, since its start."""
        log = self.log()[self._earlier :]
        # a line that says where partitions start may list only some of them
        line = r"(?:reading partitions? ([0-9, ]+)|no partition) of the topic '[^']+' (?:is assigned .*)?\(group"
        assigned = re.findall(line, log)
        return {int(number) for number in assigned[-1].split(", ")} if assigned and assigned[-1] else set()


class Accounts:
    """The table that the instances write."""

    def __init__(self, postgres: LocalPostgres, schema: str) -> None:
        self.schema = schema
        self._dsn = postgres.dsn

    def rows(self) -> dict[int, tuple[str, int]]:
        return stored(self._dsn, self.schema)

    def rows_of(self, instance: Instance) -> list[int]:
        """Those in the partitions that the instance reads."""
        return [key for key in sorted(self.rows()) if key % PARTITIONS in instance.partitions()]

    @contextmanager
    def rows_locked(self, keys: list[int]) -> Iterator[None]:
        """Writes of these rows wait."""
        with psycopg.connect(self._dsn) as other:
            other.execute(f"SELECT FROM {self.schema}.accounts WHERE id = ANY(%s) FOR UPDATE".encode(), (keys,))
            yield
            other.rollback()

    def waits_for_lock(self, instance: Instance) -> bool:
        query = "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
        with psycopg.connect(self._dsn) as other:
            return bool(other.execute(query, (f"streamling {instance.sink}",)).fetchall())


@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
def test_the_table_equals_the_topic_after_kills_of_one_instance_or_the_other(tmp_path, kafka, registry, postgres, seed):
    chance = random.Random(seed)
    name = f"killed-instances-{seed}"
    topic = Topic(kafka, registry, name=name, partitions=PARTITIONS)
    table = Accounts(postgres, name.replace("-", "_"))
    env = {
        **kafka.variables(),
        **registry.variables(),
        **postgres.variables(),
        "STREAMLING__APPLICATION_ID": name,
        "STREAMLING__CHECKPOINT_INTERVAL_SEC": chance.choice(["0.3", "3", "60"]),
        "STREAMLING__KAFKA_SOURCE__SESSION_TIMEOUT_MS": "6000",
        "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "Postgres",
    }
    pair = [Instance(tmp_path / name, env, topic, table.schema) for name in "ab"]
    try:
        with BurstyAccountLoad(topic, random.Random(seed + 1), partitions=PARTITIONS):
            for instance in pair:
                instance.start()
            for instance in pair:
                instance.eventually(lambda: [len(one.partitions()) for one in pair] == [2, 2])
            assert pair[0].partitions() | pair[1].partitions() == {0, 1, 2, 3}
            for _ in range(KILLS):
                killed, left = chance.sample(pair, 2)
                kill(killed, left, table, chance)
                killed.start()
                if chance.random() < 0.7:  # else the next kill falls into the start or the rebalance
                    killed.eventually(lambda killed=killed: len(killed.partitions()) == 2)
            killed, left = chance.sample(pair, 2)
            kill(killed, left, table, chance)
            left.eventually(lambda: left.partitions() == {0, 1, 2, 3})
        wanted = expected(topic)
        left.eventually(lambda: table.rows() == wanted)
        left.drain()
    finally:
        for instance in pair:
            instance.end()
    assert table.rows() == wanted


def kill(killed: Instance, left: Instance, table: Accounts, chance: random.Random) -> None:
    """While it starts, reads or writes."""
    if len(killed.partitions()) == 2 and chance.random() < 0.7:
        killed.eventually(lambda: len(table.rows_of(killed)) > 20)
        with table.rows_locked(chance.sample(table.rows_of(killed), 10)):
            killed.eventually(lambda: table.waits_for_lock(killed))
            killed.kill()
            time.sleep(chance.choice([0, 1, 8]))  # 8: until the other instance has its partitions
    else:
        time.sleep(chance.random() * 3)
        killed.kill()
    if chance.random() < 0.5:  # else it is back before the group has noticed
        left.eventually(lambda: len(left.partitions()) == 4)
