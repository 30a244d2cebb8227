"""Pipelines of one process that read the same topic: each gets its own rows; messages are read and decoded once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from streamling.connectors.kafka.local_plan import MessagePlan, message_template
from streamling.dev.services.topics import Message, create_topic, produce
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.plugins.streams import LocalStep
from tests.connectors.kafka.source_driver import KafkaBench, Topic, record, rows_in
from tests.harness.buffers import WaitingBuffer
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

JSON: dict[str, Any] = {
    "data_format": "json",
    "primary_key": "id",
    "schema": {"id": "int64", "name": "string"},
}
#: long enough for a loaded machine to start several pipelines
START_SECONDS = 60.0

_numbers = itertools.count(1)


class SeparatePipelines(KafkaBench):
    """Each pipeline has its own state: their nodes have the same names."""

    def begin_text(self, text: str, **how: Any) -> Any:
        self.state = MemoryState()
        return super().begin_text(text, **how)


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return SeparatePipelines(spark, kafka, registry)


def send(topic: Topic, first: int, count: int) -> None:
    topic.send(*(Message(b'{"id": %d, "name": "n%d"}' % (id, id)) for id in range(first, first + count)))


def stop_all(runs: list[Any]) -> None:
    for run in runs:
        run.stop("the test has what it wants")
        finish(run)


def test_each_pipeline_gets_the_rows_of_its_filter(bench: KafkaBench) -> None:
    topic = bench.topic(partitions=2)
    send(topic, 0, 7)
    runs = [bench.begin(topic, f"SELECT id, name FROM rows WHERE id % 4 = {number}", **JSON) for number in range(4)]
    eventually(lambda: [rows_in(run) for run in runs] == [2, 2, 2, 1], START_SECONDS)
    send(topic, 100, 400)
    eventually(lambda: [rows_in(run) for run in runs] == [102, 102, 102, 101])
    stop_all(runs)


def test_pipelines_with_other_columns_read_the_same_messages(bench: KafkaBench) -> None:
    topic = bench.topic()
    runs = [bench.begin(topic, **JSON), bench.begin(topic, **{**JSON, "schema": {"id": "string"}})]
    eventually(lambda: all(run.rows_written() is not None for run in runs), START_SECONDS)
    send(topic, 1, 3)
    assert [row["name"] for row in bench.collected(runs[0], 3)] == ["n1", "n2", "n3"]
    assert [row["id"] for row in bench.collected(runs[1], 3)] == ["1", "2", "3"]


def test_a_new_schema_of_the_topic_reaches_all_pipelines(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    runs = [bench.begin(topic) for _ in range(3)]
    eventually(lambda: [rows_in(run) for run in runs] == [1, 1, 1], START_SECONDS)
    topic.write(record("id", ("n", "int", 7)), {"id": 2, "n": 9})
    for run in runs:
        assert bench.collected(run, 2)[-1] == {"id": 2, "n": 9, "_gs_op": "i"}


def test_an_invalid_message_is_an_error_of_each_pipeline_unless_it_is_rejected(bench: KafkaBench) -> None:
    topic = bench.topic()
    send(topic, 0, 1)
    strict = [bench.begin(topic, **JSON) for _ in range(2)]
    lenient = bench.begin(topic, **JSON, errors={"to": "bad"})
    eventually(lambda: [rows_in(run) for run in (*strict, lenient)] == [1, 1, 1], START_SECONDS)
    topic.send(Message(b"not JSON"), Message(b'{"id": 2}'))
    for run in strict:
        with pytest.raises(StreamlingError, match=f"partition 0, offset 1 of the topic '{topic.name}'|offset 1"):
            finish(run)
    rows = bench.collected(lenient, 3)  # with the dead letter
    assert [row["id"] for row in rows] == [0, 2]


def test_messages_are_decoded_once(spark, kafka) -> None:
    """A random value of the decoded rows is the same for streams that share them, and only for those."""
    topic = f"decoded-{next(_numbers)}"
    create_topic(kafka.brokers, topic)
    settings = {"bootstrap.servers": kafka.brokers}
    buffers = []
    for how in ("a", "a", "b"):
        decoded = message_template(spark, headers=False).selectExpr("uuid() AS random", "offset")
        frame = decoded.where("offset > 0").selectExpr("random", "offset + 1 AS next")
        plan = MessagePlan.of(frame, headers=False)
        assert isinstance(plan, MessagePlan)
        plan.share(how, decoded)
        buffer = WaitingBuffer(spark, settings, "read_committed", topic, {0: 0}, is_whole=True)
        buffer.run([LocalStep(plan)])
        buffers.append(buffer)
    try:
        seen: list[dict[int, str]] = [{} for _ in buffers]
        for _ in range(3):  # the first ones may arrive before all streams have joined
            produce(kafka.brokers, topic, [Message(b"x") for _ in range(10)])
            for rows, buffer in zip(seen, buffers, strict=True):
                taken = buffer.take(20, 10, 10)
                assert taken is not None
                batch = taken.results[0].batch
                rows |= {} if batch is None else {row["next"]: row["random"] for row in batch.to_pylist()}
        assert all(sorted(rows) == list(range(2, 31)) for rows in seen)
        last = range(21, 31)
        assert [seen[0][next] for next in last] == [seen[1][next] for next in last]
        assert all(seen[0][next] != seen[2][next] for next in last)
    finally:
        for buffer in buffers:
            buffer.close()
