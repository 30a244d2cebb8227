"""Two instances of Kafka → SQL → Postgres with one state, killed with -9 one or the other: partitions go to the one
that is left, and at the end the table is what the topic says."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.kafka.source_driver import Topic
from tests.harness.commands import Command
from tests.recovery.accounts import AccountLoad, account_nodes, expected, stored

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: besides the last one, after which an instance is left alone; `make soak` sets more
KILLS = int(os.environ.get("STREAMLING_TEST_INSTANCE_KILLS", "0"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
SCHEMA = "killed_instances"


class Instance(Command):
    """One of several processes with the same pipeline."""

    def __init__(self, folder: Path, env: dict[str, str], topic: Topic) -> None:
        folder.mkdir()
        super().__init__(folder, env)
        self.write(account_nodes(topic, {"out": {"type": "postgres", "schema": SCHEMA, "table": "accounts"}}))

    def partitions(self) -> set[int]:
        """Those that it last said it reads, since its start."""
        log = self.log().rpartition("is running")[2]
        # a line that says where partitions start may list only some of them
        line = r"(?:reading partitions? ([0-9, ]+)|no partition) of the topic '[^']+' (?:is assigned .*)?\(group"
        assigned = re.findall(line, log)
        return {int(number) for number in assigned[-1].split(", ")} if assigned and assigned[-1] else set()


@pytest.fixture
def topic(kafka, registry) -> Topic:
    return Topic(kafka, registry, name="killed-instances", partitions=4)


@pytest.fixture
def pair(tmp_path, topic, kafka, registry, postgres) -> Iterator[list[Instance]]:
    env = {
        **kafka.variables(),
        **registry.variables(),
        **postgres.variables(),
        "STREAMLING__APPLICATION_ID": "killed-instances",
        "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.3",
        "STREAMLING__KAFKA_SOURCE__SESSION_TIMEOUT_MS": "6000",
        "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "Postgres",
    }
    made = [Instance(tmp_path / name, env, topic) for name in "ab"]
    yield made
    for instance in made:
        instance.end()


def test_the_table_is_what_the_topic_says_after_kills_of_one_instance_or_the_other(topic, pair, postgres):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    load = AccountLoad(topic, random.Random(SEED + 1), partitions=4)
    load.start()
    try:
        for instance in pair:
            instance.start()
        for instance in pair:
            instance.eventually(lambda: [len(one.partitions()) for one in pair] == [2, 2])
        assert pair[0].partitions() | pair[1].partitions() == {0, 1, 2, 3}
        for _ in range(KILLS):
            killed, left = chance.sample(pair, 2)
            time.sleep(chance.random() * 3)
            killed.kill()
            if chance.random() < 0.5:  # else it is back before the group has noticed
                left.eventually(lambda left=left: len(left.partitions()) == 4)
            killed.start()
            if chance.random() < 0.7:  # else the next kill falls into the start or the rebalance
                killed.eventually(lambda killed=killed: len(killed.partitions()) == 2)
        killed, left = chance.sample(pair, 2)
        killed.kill()
        left.eventually(lambda: left.partitions() == {0, 1, 2, 3})
    finally:
        load.stop()
    wanted = expected(topic)
    left.eventually(lambda: stored(postgres.dsn, SCHEMA) == wanted)
    left.drain()
    assert stored(postgres.dsn, SCHEMA) == wanted
