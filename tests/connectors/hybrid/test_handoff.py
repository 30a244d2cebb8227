"""From which offsets the topic is read, and when they are determined. Without tables the topic is read at once."""

from __future__ import annotations

import logging

import pytest

from streamling.dev.services.topics import delete_records, delete_topic
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from tests.connectors.hybrid.driver import ORDERS, arrived, stop
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

KEY = "hybrid_source_orders_v1"


def ids(rows) -> list[int]:
    return sorted(row["id"] for row in rows)


def written(bench, partitions: int = 1, rows: int = 10):
    """A topic with ``rows`` rows per partition: 0 to 9, 10 to 19, …"""
    topic = bench.topic(partitions=partitions)
    for partition in range(partitions):
        numbers = range(partition * rows, (partition + 1) * rows)
        topic.write(ORDERS, *({"id": number, "name": "new"} for number in numbers), partition=partition)
    return topic


def test_the_topic_continues_at_the_offsets_of_the_table(bench, caplog):
    caplog.set_level(logging.INFO)
    topic = written(bench, partitions=3)
    bench.database.offsets({(topic.name, 0): 7, (topic.name, 1): 10})
    assert ids(bench.read(topic, count=13)) == [7, 8, 9, *range(20, 30)]
    assert (
        f"the offset table {bench.database.name}.kafka_offsets has no row for partition 2 of the topic '{topic.name}': "
        "reading it from the first message"
    ) in caplog.text
    assert bench.state.get(f"orders:{topic.name}:0")["offset"] == 10
    assert bench.state.get(KEY) == {
        "current_phase": 0,
        "completed_phases": [],
        "unbounded_offsets": {"0": 7, "1": 10},
        "handoff": {"topic": topic.name, "start": "offset_table", "done": True},
    }


def test_without_an_offset_table_the_topic_is_read_from_its_start(bench, caplog):
    caplog.set_level(logging.INFO)
    topic = written(bench, partitions=2)
    assert ids(bench.read(topic, count=20)) == list(range(20))
    assert (
        f"the offset table {bench.database.name}.kafka_offsets does not exist: after the tables, the topic "
        f"'{topic.name}' is read from its first message (start_at: earliest)"
    ) in caplog.text


def test_without_a_row_of_the_topic_start_at_decides(bench, caplog):
    caplog.set_level(logging.INFO)
    topic = written(bench)
    bench.database.offsets({("other", 0): 5})
    with bench.running(topic, unbounded={"start_at": "latest"}) as run:
        eventually(lambda: bench.state.get(f"orders:{topic.name}:0") is not None, 60)
        topic.write(ORDERS, {"id": 100, "name": "new"})
        arrived(run, 1)
    assert run.rows_written() == {"out": 1}
    assert (
        f"the offset table {bench.database.name}.kafka_offsets has no row for the topic '{topic.name}': after the "
        f"tables, the topic '{topic.name}' is read from where it ends now (start_at: latest)"
    ) in caplog.text


def test_offsets_of_the_consumer_group_do_not_count(bench):
    """They are of an earlier run with another state; rows that it delivered may be overwritten by older ones of a
    table."""
    topic = written(bench)
    assert ids(bench.read(topic, count=10)) == list(range(10))
    bench.state = MemoryState()
    assert ids(bench.read(topic, count=10)) == list(range(10))


def test_a_restart_continues_with_the_stored_offsets_whatever_the_table_says_now(bench):
    topic = written(bench)
    bench.database.offsets({(topic.name, 0): 4})
    assert ids(bench.read(topic, count=6)) == list(range(4, 10))
    bench.database.offsets({(topic.name, 0): 5})
    topic.write(ORDERS, {"id": 10, "name": "new"})
    assert ids(bench.read(topic, count=1)) == [10]


def test_the_table_may_be_gone_after_the_switch(bench):
    topic = written(bench)
    bench.database.orders("archive", 0, 0)
    named = {"offset_table": {"topic_name": topic.name}}
    bench.database.offsets({(topic.name, 0): 4})
    assert ids(bench.read(topic, count=6, **named)) == list(range(4, 10))
    bench.database.execute("DROP TABLE kafka_offsets")
    topic.write(ORDERS, {"id": 10, "name": "new"})
    assert ids(bench.read(topic, count=1, **named)) == [10]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({(0): 11}, "has offset 11 for partition 0, but the topic 'TOPIC' ends at offset 10 there"),
        ({(4): 0}, "has offset 0 for partition 4, but the topic 'TOPIC' has only 1 partition"),
    ],
)
def test_a_table_that_the_topic_does_not_continue_is_an_error_before_anything_is_read(bench, offsets, message):
    topic = written(bench)
    bench.database.offsets({(topic.name, partition): offset for partition, offset in offsets.items()})
    with pytest.raises(StreamlingError) as caught:
        finish(bench.begin(topic))
    assert message.replace("TOPIC", topic.name) in str(caught.value)
    assert caught.value.remedy == "check that the table is about this topic and these brokers, or correct the row"


def test_a_topic_that_does_not_exist_is_an_error_before_anything_is_read(bench):
    bench.database.orders("archive", 0, 10)
    topic = bench.topic()
    topic.register(ORDERS)
    delete_topic(topic.kafka.brokers, topic.name)
    run = bench.begin(topic, "archive")
    with pytest.raises(StreamlingError, match=f"the topic '{topic.name}' does not exist"):
        finish(run)
    assert run.rows_written() == {}


def test_messages_that_are_neither_in_the_table_nor_in_the_topic_are_an_error(bench):
    topic = written(bench)
    bench.database.offsets({(topic.name, 0): 3})
    delete_records(topic.kafka.brokers, topic.name, {0: 5})
    with pytest.raises(StreamlingError, match="starts at offset 5 there: 2 messages are neither in ClickHouse nor in"):
        finish(bench.begin(topic))


def test_the_topic_is_read_once_the_switch_is_stored(bench):
    """Otherwise an instance that shares the state could start at other offsets."""
    bench.config["checkpoint_interval_sec"] = 3600
    topic = written(bench)
    run = bench.begin(topic)
    arrived(run, 10)
    assert bench.state.get(KEY)["handoff"]["done"] is True
    assert bench.state.get(f"orders:{topic.name}:0")["offset"] == 0
    stop(run)
    assert bench.state.get(f"orders:{topic.name}:0")["offset"] == 10
