"""Broker, registry and Postgres killed with -9 and started again under a running Kafka → SQL → Postgres and Kafka
pipeline: it retries, logs that from time to time, recovers, and in the end the tables are what the topic says."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamling.dev.services.service import LocalService
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import Topic
from tests.harness.commands import Command
from tests.harness.pipelines import eventually
from tests.recovery.accounts import WIDER, AccountLoad, account_nodes, expected, stored, written

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow, pytest.mark.soak]

SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
#: seconds that a service is unavailable; above 30 the Kafka sink's producer gives up and the sink retries
AWAY = float(os.environ.get("STREAMLING_TEST_OUTAGE", "5"))
#: the source says that brokers do not answer after ten seconds; before, its consumer retries silently
SILENCE = 11.0


class Pipeline(Command):
    """A pipeline under load whose services go away one after the other."""

    def __init__(self, folder: Path, env: dict[str, str], topic: Topic, dsn: str) -> None:
        super().__init__(folder, env)
        self.topic = topic
        self.out = f"{topic.name}-out"
        self._dsn = dsn
        kafka = {"type": "kafka", "topic": self.out, "data_format": "avro"}
        table = {"type": "postgres", "schema": "outages", "table": "accounts"}
        self.write(account_nodes(topic, {"table": table, "topic": kafka}))

    def rows(self) -> Any:
        return stored(self._dsn, "outages")

    @contextmanager
    def without(self, service: LocalService, seconds: float = AWAY) -> Iterator[None]:
        """An outage; ends when rows arrive again."""
        service.kill()
        try:
            yield
            time.sleep(seconds)
        finally:
            start_again(service)
        before = self.rows()
        self.eventually(lambda: self.rows() != before)

    def log_during(self, do: Callable[[], None]) -> list[str]:
        """Warnings and errors that are logged meanwhile."""
        before = len(self.log())
        do()
        return re.findall(r"(?:WARN |ERROR) (.*)", self.log()[before:])


def start_again(service: LocalService) -> None:
    """The orphans of a killed Postgres need a moment to notice and to let go of its memory."""
    failures: list[StreamlingError] = []

    def starts() -> bool:
        try:
            service.start()
        except StreamlingError as error:
            failures.append(error)
            time.sleep(0.5)
            return False
        return True

    eventually(starts, 60, lambda: f"{service} does not start: {failures[-1]}")


def test_a_running_pipeline_outlives_its_services(tmp_path, kafka, registry, postgres) -> None:
    print(f"seed {SEED}")
    env = {**kafka.variables(), **registry.variables(), **postgres.variables()}
    env |= {"STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.3", "STREAMLING__STATE_BACKEND__BACKEND_TYPE": "Postgres"}
    topic = Topic(kafka, registry, name="outage-accounts")
    load = AccountLoad(topic, random.Random(SEED))
    pipeline = Pipeline(tmp_path, env, topic, postgres.dsn)
    pipeline.start()
    load.start()
    try:
        pipeline.eventually(lambda: bool(pipeline.rows()))

        def broker() -> None:
            with pipeline.without(kafka, max(AWAY, SILENCE)):
                pass

        def registry_with_new_schema() -> None:
            id = topic.register(WIDER)
            with pipeline.without(registry):
                load.widen(id)

        def database() -> None:
            with pipeline.without(postgres):
                pass

        for outage in (broker, registry_with_new_schema, database):
            said = pipeline.log_during(outage)
            print(outage.__name__, *said, sep="\n  ")
            assert said
            assert only_now_and_then(said)
        load.stop()
        wanted = expected(topic)
        pipeline.eventually(lambda: pipeline.rows() == wanted)
        pipeline.drain()
    finally:
        load.stop()
        pipeline.end()
    assert pipeline.rows() == written(topic, pipeline.out) == wanted


def only_now_and_then(said: list[str]) -> bool:
    """Whether each node logged fewer warnings than it made attempts, where it made more than two."""
    attempts: dict[str, list[int]] = {}
    for line in said:
        if found := re.search(r"^(.*?): .*attempt (\d+), (?:re)?trying", line):
            attempts.setdefault(found[1], []).append(int(found[2]))
    return all(len(numbers) < max(numbers) for numbers in attempts.values() if max(numbers) > 2)
