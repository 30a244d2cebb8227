"""Kafka → SQL → Postgres under load, killed with -9 again and again, and once with
SIGTERM: at the end the table is what the topic says."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from streamling.state.sqlite import SqliteState
from tests.connectors.kafka.source_driver import Topic
from tests.recovery.accounts import Command, Load, expected, stored

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: enough for every run of the suite; STREAMLING_TEST_KILLS=30 for a longer look
KILLS = int(os.environ.get("STREAMLING_TEST_KILLS", "3"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))


def test_the_table_is_what_the_topic_says_after_many_kills(tmp_path, kafka, registry, postgres):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    topic = Topic(kafka, registry, name="killed-accounts")
    env = {**kafka.variables(), **registry.variables(), **postgres.variables()}
    pipeline = Command(tmp_path, {**env, "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.3"})
    pipeline.write(topic, {"out": {"type": "postgres", "schema": "killed", "table": "accounts"}})
    load = Load(topic, random.Random(SEED + 1))
    load.start()
    try:
        drained_under_load(pipeline, topic, postgres.dsn, tmp_path)
        for _ in range(KILLS):
            before = stored(postgres.dsn, "killed")
            pipeline.start()
            if chance.random() < 0.75:  # most kills while rows are written, some during the start
                pipeline.eventually(lambda before=before: stored(postgres.dsn, "killed") != before)
                time.sleep(chance.random() * 1.5)
            else:
                time.sleep(chance.random() * 5)
            pipeline.kill()
    finally:
        load.stop()
        pipeline.end()
    wanted = expected(topic)
    pipeline.start()
    try:
        pipeline.eventually(lambda: stored(postgres.dsn, "killed") == wanted)
        pipeline.drain()
    finally:
        pipeline.end()
    assert stored(postgres.dsn, "killed") == wanted


def drained_under_load(pipeline: Command, topic: Topic, dsn: str, folder: Path) -> None:
    """After a SIGTERM the table is what the topic says up to the stored position: no gap before it, nothing after."""
    pipeline.start()
    pipeline.eventually(lambda: bool(stored(dsn, "killed")))
    pipeline.drain()
    with SqliteState("pipeline", folder / "state.db") as state:
        position = state.get(f"accounts:{topic.name}:0")
    assert position is not None
    assert stored(dsn, "killed") == expected(topic, position["offset"])
