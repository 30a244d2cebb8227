"""Pipelines of one process that read the same topic: each gets its own rows; messages are read and decoded once."""

from __future__ import annotations

from typing import Any

import pytest

from streamling.dev.services.topics import Message
from tests.connectors.kafka.source_driver import KafkaBench, Topic, rows_in
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

JSON: dict[str, Any] = {
    "data_format": "json",
    "primary_key": "id",
    "schema": {"id": "int64", "name": "string"},
}


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def send(topic: Topic, first: int, count: int) -> None:
    topic.send(*(Message(b'{"id": %d, "name": "n%d"}' % (id, id)) for id in range(first, first + count)))


def test_each_pipeline_gets_the_rows_of_its_filter(bench: KafkaBench) -> None:
    topic = bench.topic(partitions=2)
    send(topic, 0, 7)
    runs = [bench.begin(topic, f"SELECT id, name FROM rows WHERE id % 4 = {number}", **JSON) for number in range(4)]
    wanted = [2, 2, 2, 1]
    eventually(lambda: [rows_in(run) for run in runs] == wanted)
    send(topic, 100, 400)
    eventually(lambda: [rows_in(run) for run in runs] == [102, 102, 102, 101])
    for run in runs:
        run.stop("the test has what it wants")
        finish(run)
