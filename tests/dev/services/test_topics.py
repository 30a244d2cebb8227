from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from streamling.dev.services import topics
from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.topics import Message
from streamling.errors import StreamlingError

pytestmark = pytest.mark.services


@pytest.fixture
def topic(kafka: LocalKafka) -> str:
    name = f"topic-{uuid4()}"
    topics.create_topic(kafka.brokers, name, partitions=2)
    return name


def test_messages_are_read_as_they_were_sent(kafka: LocalKafka, topic: str) -> None:
    sent = [
        Message(b"1", b"k", (("dbz.op", b"c"), ("empty", None)), partition=1, timestamp=1_700_000_000_000),
        Message(None, b"tombstone", partition=1, timestamp=1),
        Message(b"", None, partition=1, timestamp=2),
    ]
    assert topics.produce(kafka.brokers, topic, sent) == 3
    received = list(topics.consume(kafka.brokers, topic))
    assert received == [message._replace(offset=number) for number, message in enumerate(sent)]
    assert topics.end_offsets(kafka.brokers, topic) == {0: 0, 1: 3}


def test_equal_keys_share_a_partition_and_keep_their_order(kafka: LocalKafka, topic: str) -> None:
    sent = [Message(str(n).encode(), str(n % 7).encode()) for n in range(2000)]
    topics.produce(kafka.brokers, topic, sent)
    places: dict[bytes | None, set[int]] = {}
    order: dict[bytes | None, list[int]] = {}
    for message in topics.consume(kafka.brokers, topic):
        places.setdefault(message.key, set()).add(message.partition)
        order.setdefault(message.key, []).append(int(message.value or b""))
    assert all(len(partitions) == 1 for partitions in places.values())
    assert {partition for partitions in places.values() for partition in partitions} == {0, 1}
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert sum(map(len, order.values())) == 2000


def test_reading_starts_and_ends_where_asked(kafka: LocalKafka, topic: str) -> None:
    topics.produce(kafka.brokers, topic, [Message(str(n).encode(), partition=0) for n in range(5)])
    read = topics.consume(kafka.brokers, topic, start={0: 2}, limit=2, follow=True)
    assert [message.value for message in read] == [b"2", b"3"]


def test_deleted_records_are_gone(kafka: LocalKafka, topic: str) -> None:
    topics.produce(kafka.brokers, topic, [Message(str(n).encode(), partition=0) for n in range(5)])
    topics.delete_records(kafka.brokers, topic, {0: 3})
    assert topics.offsets(kafka.brokers, topic) == {0: (3, 5), 1: (0, 0)}
    assert [message.value for message in topics.consume(kafka.brokers, topic)] == [b"3", b"4"]


def test_a_topic_can_be_extended_and_deleted(kafka: LocalKafka, topic: str) -> None:
    topics.add_partitions(kafka.brokers, topic, 4)
    assert topics.partition_count(kafka.brokers, topic) == 4
    topics.delete_topic(kafka.brokers, topic)
    assert topics.partition_count(kafka.brokers, topic) == 0
    with pytest.raises(StreamlingError, match=f"there is no topic '{topic}'"):
        list(topics.consume(kafka.brokers, topic))


def test_a_topic_is_created_once(kafka: LocalKafka, topic: str) -> None:
    with pytest.raises(StreamlingError, match=f"cannot create the topic '{topic}' on .*already exists"):
        topics.create_topic(kafka.brokers, topic)


def test_messages_before_a_failure_of_the_input_are_sent(kafka: LocalKafka, topic: str) -> None:
    def broken() -> Iterator[Message]:
        yield Message(b"1", partition=0)
        raise ValueError("bad line")

    with pytest.raises(ValueError, match="bad line"):
        topics.produce(kafka.brokers, topic, broken())
    assert topics.end_offsets(kafka.brokers, topic) == {0: 1, 1: 0}
