"""A topic that is deleted and recreated under a stored position: its offsets refer to other messages."""

from __future__ import annotations

import pytest

from streamling.dev.services.topics import create_topic, delete_topic
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench, Topic, rows_in
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def recreate(topic: Topic, messages: int) -> None:
    delete_topic(topic.kafka.brokers, topic.name)
    create_topic(topic.kafka.brokers, topic.name)
    topic.write(ORDERS, *({"id": 100 + n} for n in range(messages)))


def test_a_recreated_topic_with_more_messages_than_were_read_is_an_error(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1}, {"id": 2})
    assert len(bench.rows(topic, 2)) == 2
    recreate(topic, 5)
    with pytest.raises(StreamlingError, match=f"topic '{topic.name}' was deleted and recreated") as caught:
        bench.rows(topic, 5)
    assert "streamling state reset" in str(caught.value.remedy)
    assert bench.state.get(f"rows:{topic.name}:0")["offset"] == 2

    bench.state.clear()
    assert [row["id"] for row in bench.rows(topic, 5)] == [100, 101, 102, 103, 104]


def test_a_topic_recreated_while_the_pipeline_runs_is_an_error(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1}, {"id": 2})
    bench.settings["lag_report_interval_ms"] = 200
    run = bench.begin(topic)
    eventually(lambda: rows_in(run) == 2 and bench.state.get(f"rows:{topic.name}:0"))
    recreate(topic, 5)
    with pytest.raises(StreamlingError, match="was deleted and recreated"):
        finish(run)
    assert bench.state.get(f"rows:{topic.name}:0")["topic_id"]
    with pytest.raises(StreamlingError, match="was deleted and recreated"):
        bench.rows(topic, 5)


def test_a_position_without_an_id_gets_one(bench: KafkaBench) -> None:
    topic = bench.topic(partitions=2)
    for partition in (0, 1):
        topic.write(ORDERS, {"id": 1}, {"id": 2}, partition=partition)
        bench.state.put(f"rows:{topic.name}:{partition}", {"offset": 1 + partition, "updated_at": 1})
    assert [row["id"] for row in bench.rows(topic, 1)] == [2]
    ids = {entry["topic_id"] for entry in bench.state.get_prefix("rows:").values()}
    assert len(ids) == 1
    delete_topic(topic.kafka.brokers, topic.name)
    create_topic(topic.kafka.brokers, topic.name, partitions=2)
    for partition in (0, 1):
        topic.write(ORDERS, *({"id": n} for n in range(5)), partition=partition)
    with pytest.raises(StreamlingError, match="was deleted and recreated"):
        bench.rows(topic, 6)
