"""Kafka → script → Postgres under load while a worker is killed with -9: Spark continues with the others, and the
table is what the topic says."""

from __future__ import annotations

import json
import os
import random

import pytest

from tests.connectors.kafka.source_driver import Topic
from tests.harness.cluster import Cluster
from tests.harness.commands import Command
from tests.recovery.accounts import SCHEMA, AccountLoad, expected, stored

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow, pytest.mark.soak]

SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261116"))
SCRIPT = "function process(row) { row.owner = row.owner.toUpperCase(); row.cents += 1; return row; }"


def test_a_killed_worker_costs_no_row(tmp_path, cluster: Cluster, kafka, registry, postgres):
    print(f"seed {SEED}")
    topic = Topic(kafka, registry, name="cluster-lost-worker", partitions=2)
    source = {"type": "kafka", "topic": topic.name, "primary_key": "id", "batch_size": 2000}
    script = {"type": "script", "from": "accounts", "language": "js", "primary_key": "id", "script": SCRIPT}
    sink = {"type": "postgres", "from": "shaped", "schema": "lostworker", "table": "accounts"}
    nodes = {"sources": {"accounts": source}, "transforms": {"shaped": script}, "sinks": {"out": sink}}
    (tmp_path / "pipeline.yaml").write_text(json.dumps(nodes))
    env = {**kafka.variables(), **registry.variables(), **postgres.variables()}
    settings = {"STREAMLING__SPARK__MASTER": cluster.master, "STREAMLING__CHECKPOINT_INTERVAL_SEC": "1"}
    pipeline = Command(tmp_path, {**env, **settings})
    topic.write(SCHEMA, {"id": 1000, "owner": "first", "cents": 0}, partition=0)
    load = AccountLoad(topic, random.Random(SEED), partitions=2)
    victim = next(worker for worker in cluster.workers if worker.poll() is None)
    try:
        pipeline.start()
        pipeline.eventually(lambda: bool(stored(postgres.dsn, "lostworker")), 180)
        load.start()
        try:
            pipeline.eventually(lambda: len(stored(postgres.dsn, "lostworker")) > 1, 180)
            before = stored(postgres.dsn, "lostworker")
            victim.kill()
            victim.wait()
            pipeline.eventually(lambda: stored(postgres.dsn, "lostworker") != before, 180)
        finally:
            load.stop()
        wanted = expected(topic)
        pipeline.eventually(lambda: stored(postgres.dsn, "lostworker") == wanted, 180)
        pipeline.drain()
    finally:
        pipeline.end()
        cluster.add_worker()
        cluster.wait_for_workers()
    assert stored(postgres.dsn, "lostworker") == wanted
