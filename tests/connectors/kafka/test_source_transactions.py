"""Messages of transactions: only committed ones become rows, unless the pipeline reads all of them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.lag import METRIC
from streamling.dev.services.topics import end_offsets
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench, Topic, framed, rows_in
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    bench = KafkaBench(spark, kafka, registry)
    bench.settings["lag_report_interval_ms"] = 100
    return bench


class Writer:
    """Writes rows in transactions."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._schema = topic.register(ORDERS)
        self._producer = Producer({"bootstrap.servers": topic.kafka.brokers, "transactional.id": topic.name})
        self._producer.init_transactions()

    def begin(self, *ids: int) -> None:
        self._producer.begin_transaction()
        for id in ids:
            self._producer.produce(self._topic.name, framed(self._schema, ORDERS, {"id": id, "name": None}))
        self._producer.flush()

    def commit(self, *ids: int) -> None:
        self.begin(*ids)
        self._producer.commit_transaction()

    def abort(self, *ids: int) -> None:
        self.begin(*ids)
        self._producer.abort_transaction()

    def finish(self) -> None:
        self._producer.commit_transaction()


def test_only_committed_messages_are_rows_and_the_position_reaches_the_end(bench: KafkaBench) -> None:
    topic = bench.topic()
    writer = Writer(topic)
    writer.abort(*range(100))
    writer.commit(1, 2)
    writer.abort(3)
    writer.commit(4)
    run = bench.begin(topic)
    eventually(lambda: rows_in(run) == 3)
    writer.abort(*range(100, 5000))  # a separate batch, without a row
    end = end_offsets(topic.kafka.brokers, topic.name)[0]
    stored = f"rows:{topic.name}:0"
    eventually(lambda: run.failure is not None or (bench.state.get(stored) or {}).get("offset") == end, 60)
    eventually(lambda: run.failure is not None or run.metrics.value(METRIC, "rows", partition="0") == 0)
    writer.begin(5)
    writer.finish()
    eventually(lambda: run.failure is not None or rows_in(run) == 4)
    writer.begin(6)  # stays open
    assert [row["id"] for row in bench.collected(run, 4)] == [1, 2, 4, 5]
    admin = KafkaAdmin(bench.spark, {"bootstrap.servers": topic.kafka.brokers})
    assert bench.state.get(stored)["offset"] == admin.latest(topic.name, [0], committed=True)[0] == end + 2
    assert admin.latest(topic.name, [0])[0] == end + 3
    admin.close()


def test_uncommitted_messages_are_rows_if_configured(bench: KafkaBench) -> None:
    topic = bench.topic()
    writer = Writer(topic)
    writer.abort(1)
    writer.begin(2)
    rows = bench.rows(topic, 2, isolation_level="read_uncommitted")
    assert [row["id"] for row in rows] == [1, 2]

    run = bench.begin(topic)  # the position is inside the open transaction
    writer.finish()
    writer.commit(3)
    assert [row["id"] for row in bench.collected(run, 1)] == [3]


def test_a_start_at_the_end_is_before_an_open_transaction(bench: KafkaBench) -> None:
    topic = bench.topic()
    writer = Writer(topic)
    writer.commit(1)
    writer.begin(2)
    run = bench.begin(topic, starting_offsets="latest")
    eventually(lambda: bench.state.get_prefix("rows:"))
    writer.finish()
    assert [row["id"] for row in bench.collected(run, 1)] == [2]
