"""Where a topic is read from if the state has no position: offsets committed to the consumer group take precedence over
`starting_offsets`."""

from __future__ import annotations

import logging

import pytest

from streamling.dev.services.topics import create_topic, delete_records, delete_topic
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.plugins.state_backend import StalePositionError
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench, Topic, rows_in
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streamling.node.rows")


def ids(bench: KafkaBench, topic: Topic, count: int, **options: str) -> list[int]:
    return sorted(row["id"] for row in bench.rows(topic, count, **options))


def lose_state(bench: KafkaBench) -> None:
    """As when a container without a volume restarts."""
    bench.state = MemoryState()


def test_a_pipeline_without_its_state_continues_at_the_group_offsets(
    bench: KafkaBench, caplog: pytest.LogCaptureFixture
) -> None:
    topic = bench.topic(partitions=2)
    for partition in (0, 1):
        topic.write(ORDERS, *({"id": 10 * partition + n} for n in range(3)), partition=partition)
    assert ids(bench, topic, 6) == [0, 1, 2, 10, 11, 12]
    assert (
        f"reading partitions 0, 1 of the topic '{topic.name}' from starting_offsets (earliest) (offset 0, 0)"
        in caplog.text
    )

    lose_state(bench)
    topic.write(ORDERS, {"id": 3}, partition=0)
    assert ids(bench, topic, 1) == [3]
    assert (
        f"of the topic '{topic.name}' from the offset committed to the consumer group 'local_app_v1-rows', because"
        in caplog.text
    )
    assert "no position is stored (offset 3, 3)" in caplog.text

    lose_state(bench)
    topic.write(ORDERS, {"id": 13}, partition=1)
    assert ids(bench, topic, 1, starting_offsets="latest") == [13], "what came while nothing ran is not skipped"

    topic.write(ORDERS, {"id": 4}, partition=0)
    bench.state.put(f"rows:{topic.name}:0", {"offset": 2, "updated_at": 1})
    caplog.clear()
    assert ids(bench, topic, 3) == [2, 3, 4], "the stored position has preference over the group"
    assert f"reading partitions 0, 1 of the topic '{topic.name}' from the stored position (offset 2, 4)" in caplog.text


def test_the_group_offsets_of_a_recreated_topic_are_ignored(
    bench: KafkaBench, caplog: pytest.LogCaptureFixture
) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1}, {"id": 2})
    assert ids(bench, topic, 2) == [1, 2]
    delete_topic(topic.kafka.brokers, topic.name)
    create_topic(topic.kafka.brokers, topic.name)
    topic.write(ORDERS, *({"id": n} for n in range(5)))
    commit_as_before(bench, topic, offset=2)
    lose_state(bench)
    assert ids(bench, topic, 5) == [0, 1, 2, 3, 4]
    assert "belongs to a topic that has been deleted since" in caplog.text


def commit_as_before(bench: KafkaBench, topic: Topic, offset: int) -> None:
    """Brokers delete the offsets of a topic with the topic, but not immediately."""
    from streamling.connectors.kafka.admin import KafkaAdmin

    admin = KafkaAdmin(bench.spark, {"bootstrap.servers": topic.kafka.brokers})
    admin.commit("local_app_v1-rows", topic.name, {0: offset}, "topic_id=AAAAAAAAAAAAAAAAAAAAAQ")
    admin.close()


def test_messages_deleted_before_they_were_read_are_an_error(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    assert ids(bench, topic, 1) == [1]
    lose_state(bench)
    topic.write(ORDERS, *({"id": n} for n in range(5)))
    delete_records(topic.kafka.brokers, topic.name, {0: 4})
    with pytest.raises(StreamlingError, match="3 messages were deleted before they were read") as raised:
        ids(bench, topic, 2)
    assert "streamling state reset" in str(raised.value.remedy)


def test_a_checkpoint_does_not_set_a_position_back(bench: KafkaBench) -> None:
    """Another process has used the same state, and was faster."""
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    run = bench.begin(topic)
    key = f"rows:{topic.name}:0"
    eventually(lambda: rows_in(run) == 1 and bench.state.get(key))
    bench.state.put(key, {**bench.state.get(key), "offset": 39})
    topic.write(ORDERS, {"id": 2})
    with pytest.raises(StalePositionError, match=r"\(offset 39\) is ahead of this process \(offset 2\)"):
        finish(run)
    assert bench.state.get(key)["offset"] == 39


def test_a_preview_commits_nothing_and_does_not_use_the_group(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1}, {"id": 2})
    bench.settings = {"consumer_group_id": "production"}
    assert ids(bench, topic, 2) == [1, 2]

    def previewed() -> list[int]:
        lose_state(bench)
        run = bench.begin_text(bench.text(topic), read_only=True, application_id="preview-1")
        return sorted(row["id"] for row in bench.collected(run, 2))

    assert previewed() == [1, 2], "the offsets of the group do not count"
    assert previewed() == [1, 2], "nothing was committed"
