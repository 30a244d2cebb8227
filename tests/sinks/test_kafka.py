"""The Kafka sink against a real broker and registry; messages are read back by other clients than the sink's."""

from __future__ import annotations

import pytest

from tests.sinks.kafka_driver import KafkaSinkBench, numbered, people

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaSinkBench:
    return KafkaSinkBench(spark, kafka, registry)


def test_a_hundred_rows_become_a_hundred_messages(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.write(topic, numbered(0, 100))
    rows = sorted(bench.rows(topic), key=lambda row: row["id"])
    assert rows == [{"id": id, "name": f"n{id}", "_gs_op": "i"} for id in range(100)]


def test_the_header_tells_the_operation_and_the_value_does_not(bench: KafkaSinkBench) -> None:
    topic = bench.topic()
    bench.write(topic, people((1, "a", "i"), (2, "b", "u"), (3, "c", "d")), topic_partitions=1)
    messages = bench.messages(topic)
    assert [message.headers for message in messages] == [(("dbz.op", op),) for op in (b"c", b"u", b"d")]
    assert [message.key for message in messages] == [b"1", b"2", b"3"]
    assert "_gs_op" not in str(bench.schemas.schema(int.from_bytes(messages[0].value[1:5], "big")))
