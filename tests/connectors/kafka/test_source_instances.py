"""Several instances of one pipeline: they divide the topic's partitions and take over from each other.

The instances run in one process here, each with its own connection to the state; for processes that are killed see
`tests/recovery/test_kill_instances.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from streamling.connectors.kafka.lag import METRIC
from streamling.connectors.kafka.source import KafkaSource
from streamling.connectors.memory import collected_rows
from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.connectors.postgres.state import PostgresState
from streamling.dev.services.topics import add_partitions
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.plugins.state_backend import StateBackend
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench, Topic, at_any_latency, rows_in
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

SOON = 60


class Fleet(KafkaBench):
    """Instances of one pipeline on one topic, with the rows that each has read."""

    def __init__(self, spark: Any, kafka: Any, registry: Any, settings: PostgresStateSettings | None) -> None:
        super().__init__(spark, kafka, registry)
        self._state_settings = settings
        self.application = f"app-{uuid4().hex[:8]}"
        self.settings = {"session_timeout_ms": 6000, "lag_report_interval_ms": 100}
        self.checkpoint_interval = 0.2
        self._next = 0
        self.runs: list[PipelineRun] = []
        self._states: list[StateBackend] = []

    def prepare(self, text: str, **settings: Any) -> PipelineRun:
        common = {"application_id": self.application, "checkpoint_interval_sec": self.checkpoint_interval}
        return super().prepare(text, **common, **settings)

    def join(self, topic: Topic, **options: Any) -> PipelineRun:
        self.open_state()
        run = self.begin(topic, **options)
        self.runs.append(run)
        return run

    def open_state(self) -> None:
        shared = self._state_settings
        self.state = PostgresState(self.application, shared) if shared else MemoryState()
        self._states.append(self.state)

    def leave(self, run: PipelineRun) -> None:
        run.stop("the test wants it")
        finish(run)

    def close(self) -> None:
        for run in self.runs:
            if run.stop_reason is None and run.failure is None:
                self.leave(run)
        for state in self._states:
            state.close()

    def write(self, topic: Topic, count: int, partitions: int) -> None:
        """Write rows with the next numbers, spread over the partitions."""
        for partition in range(partitions):
            numbers = range(self._next, self._next + count)
            topic.write(ORDERS, *({"id": n} for n in numbers if n % partitions == partition), partition=partition)
        self._next += count

    def complete(self) -> None:
        """Wait until some instance has read every row that was written."""
        eventually(lambda: set(self.read_ids()) == set(range(self._next)), SOON)

    def read_ids(self) -> list[int]:
        return [row["id"] for run in self.runs if rows_in(run) for row in collected_rows(run, "out").to_pylist()]

    def divided(self, *sizes: int) -> None:
        """Wait until the instances read this many partitions each."""
        eventually(lambda: [len(partitions(run)) for run in self.runs] == list(sizes), SOON)


def partitions(run: PipelineRun) -> set[int]:
    """Return the partitions that an instance reads."""
    return set(assigned(run) or ())


def assigned(run: PipelineRun) -> frozenset[int] | None:
    (source,) = run.operators("rows")
    assert isinstance(source, KafkaSource)
    return source.assigned_partitions


@pytest.fixture
def settings(postgres) -> PostgresStateSettings:
    server = {"host": "127.0.0.1", "port": postgres.port, "db": "postgres", "user": "postgres", "sslmode": "disable"}
    return PostgresStateSettings(**server, state_schema_name=f"schema_{uuid4().hex}")


@pytest.fixture
def fleet(spark, kafka, registry, settings) -> Iterator[Fleet]:
    made = Fleet(spark, kafka, registry, settings)
    yield made
    made.close()


@at_any_latency
def test_instances_divide_a_topic_and_hand_over_without_reading_a_row_twice(fleet: Fleet, latency: str) -> None:
    fleet.checkpoint_interval = 600  # the instance that gives up partitions stores their positions
    topic = fleet.topic(partitions=4)
    fleet.write(topic, 400, 4)
    first = fleet.join(topic, latency=latency)
    fleet.divided(4)
    fleet.complete()
    fleet.write(topic, 400, 4)
    second = fleet.join(topic, latency=latency)  # in the middle of the work
    fleet.write(topic, 400, 4)
    fleet.divided(2, 2)
    assert partitions(first) | partitions(second) == {0, 1, 2, 3}
    fleet.write(topic, 400, 4)
    fleet.complete()
    fleet.leave(second)
    fleet.write(topic, 400, 4)
    eventually(lambda: len(partitions(first)) == 4, SOON)
    fleet.complete()
    fleet.leave(first)
    assert sorted(fleet.read_ids()) == list(range(2000))


def test_only_the_owner_of_a_partition_reports_its_lag(fleet: Fleet) -> None:
    topic = fleet.topic(partitions=4)
    fleet.write(topic, 40, 4)
    first = fleet.join(topic)
    eventually(lambda: lag(first).keys() == {0, 1, 2, 3}, SOON)
    second = fleet.join(topic)
    fleet.divided(2, 2)
    fleet.complete()
    eventually(lambda: [lag(run).keys() for run in (first, second)] == [partitions(first), partitions(second)], SOON)
    eventually(lambda: not any(lag(first).values()) and not any(lag(second).values()), SOON)


def lag(run: PipelineRun) -> dict[int, float]:
    """Return the lag that an instance reports for each partition."""
    lags = [series for series in run.metrics.snapshot() if series.name == METRIC]
    return {int(series.tags["partition"]): series.value for series in lags}


def test_one_more_instance_than_partitions_waits_until_it_is_needed(fleet: Fleet, kafka) -> None:
    topic = fleet.topic(partitions=1)
    topic.register(ORDERS)
    first = fleet.join(topic)
    fleet.divided(1)
    second = fleet.join(topic)
    eventually(lambda: assigned(second) == frozenset(), SOON)
    fleet.write(topic, 100, 1)
    fleet.complete()
    assert rows_in(second) == 0
    fleet.leave(first)
    fleet.write(topic, 100, 1)
    fleet.complete()
    assert partitions(second) == {0}
    add_partitions(kafka.brokers, topic.name, 3)
    fleet.write(topic, 300, 3)
    fleet.complete()
    fleet.leave(second)
    assert sorted(fleet.read_ids()) == list(range(500))


def test_all_instances_start_at_the_same_end_of_the_topic(fleet: Fleet) -> None:
    topic = fleet.topic(partitions=2)
    fleet.write(topic, 100, 2)
    fleet.join(topic, starting_offsets="latest")
    fleet.join(topic, starting_offsets="latest")
    fleet.divided(1, 1)
    assert fleet.read_ids() == []
    topic.write(ORDERS, {"id": -1}, partition=0)
    topic.write(ORDERS, {"id": -2}, partition=1)
    eventually(lambda: sorted(fleet.read_ids()) == [-2, -1], SOON)


def test_an_instance_whose_partition_was_claimed_continues_from_the_stored_position(
    fleet: Fleet, settings: PostgresStateSettings, caplog
) -> None:
    topic = fleet.topic(partitions=1)
    topic.register(ORDERS)
    run = fleet.join(topic)
    fleet.write(topic, 10, 1)
    fleet.complete()
    key = f"rows:{topic.name}:0"
    with PostgresState(fleet.application, settings) as other:  # has not learned yet that it lost its membership
        eventually(lambda: (other.get(key) or {"offset": 0})["offset"] == 10, SOON)
        assert other.claim([key])[key]["offset"] == 10
        other.put(key, {"offset": 5, "updated_at": 0})
        fleet.write(topic, 10, 1)
        eventually(lambda: len(fleet.read_ids()) == 35, SOON)  # 20, and 15 replayed
        eventually(lambda: other.get(key)["offset"] == 20, SOON)
    assert f"the state under {key} now belongs to another instance" in caplog.text
    assert partitions(run) == {0}


def test_a_second_instance_without_a_shared_state_is_rejected(spark, kafka, registry) -> None:
    fleet = Fleet(spark, kafka, registry, None)
    topic = fleet.topic(partitions=2)
    fleet.write(topic, 10, 2)
    first = fleet.join(topic)
    fleet.complete()
    second = fleet.join(topic)
    with pytest.raises(StreamlingError) as refused:
        finish(second)
    assert "kafka source 'rows'" in str(refused.value)
    assert f"another instance of the application '{fleet.application}' already reads the topic" in str(refused.value)
    assert "state_backend.backend_type" in (refused.value.remedy or "")
    fleet.write(topic, 10, 2)
    fleet.complete()
    fleet.leave(first)
    fleet.close()


def test_a_pipeline_in_a_group_ends_after_its_record_limit(fleet: Fleet) -> None:
    topic = fleet.topic(partitions=2)
    fleet.write(topic, 20, 2)
    fleet.open_state()
    run = fleet.start(
        fleet.text(topic),
        num_records_before_stop=20,
        kafka_source={"brokers": fleet.kafka.brokers, "schema_registry_url": fleet.registry_service.url},
    )
    finish(run)
    assert sorted(row["id"] for row in collected_rows(run, "out").to_pylist()) == list(range(20))
