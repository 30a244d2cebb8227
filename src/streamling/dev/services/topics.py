"""Topics and messages of a Kafka broker, for manual work and tests. Pipelines use Spark instead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from streamling.dev.services.extra import require
from streamling.errors import StreamlingError

#: settings of librdkafka besides the brokers; a secured listener needs some
Client = Mapping[str, Any]

_SECONDS = 30
_NONE: Client = {}

#: keeps the order, needs few round trips, and uses the partition that a Java producer would choose for a key
_PRODUCER = {
    "enable.idempotence": True,
    "linger.ms": 20,
    "batch.size": 2**20,
    "queue.buffering.max.messages": 500_000,
    "partitioner": "murmur2_random",
    "topic.metadata.propagation.max.ms": 2000,  # reports a missing topic soon, not after 30 s
    # a report for each message would halve the rate
    "delivery.report.only.error": True,
}
_CONSUMER = {
    "group.id": "streamling-dev",  # required, never joined
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
}


class Message(NamedTuple):
    """One message, sent or received. A negative partition means: chosen by the key, or any."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = -1
    offset: int = -1
    #: milliseconds since 1970; 0 means now
    timestamp: int = 0

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header with this name."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


# ── topics ──────────────────────────────────────────────────────────────────────────────────────────────────


def create_topic(
    brokers: str, topic: str, *, partitions: int = 1, settings: Mapping[str, str] = {}, client: Client = _NONE
) -> None:
    """Create ``topic``; returns when it can be written to."""
    new = require("confluent_kafka.admin").NewTopic(topic, partitions, 1, config=dict(settings))
    _ask(brokers, client, lambda admin: admin.create_topics([new]), f"create the topic {topic!r}")
    _wait(lambda: partition_count(brokers, topic, client=client) == partitions, f"the topic {topic!r} to appear")


def add_partitions(brokers: str, topic: str, partitions: int, *, client: Client = _NONE) -> None:
    """Increase the number of partitions of ``topic`` to ``partitions``."""
    new = require("confluent_kafka.admin").NewPartitions(topic, partitions)
    _ask(brokers, client, lambda admin: admin.create_partitions([new]), f"add partitions to the topic {topic!r}")
    _wait(lambda: partition_count(brokers, topic, client=client) == partitions, f"the topic {topic!r} to grow")


def delete_topic(brokers: str, topic: str, *, client: Client = _NONE) -> None:
    """Delete ``topic``; returns when the brokers no longer list it."""
    _ask(brokers, client, lambda admin: admin.delete_topics([topic]), f"delete the topic {topic!r}")
    _wait(lambda: partition_count(brokers, topic, client=client) == 0, f"the topic {topic!r} to go")


def delete_records(brokers: str, topic: str, before: Mapping[int, int], *, client: Client = _NONE) -> None:
    """Delete the messages ``before`` these offsets by partition."""
    kafka = require("confluent_kafka")
    places = [kafka.TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    _ask(brokers, client, lambda admin: admin.delete_records(places), f"delete records of the topic {topic!r}")


def partition_count(brokers: str, topic: str, *, client: Client = _NONE) -> int:
    """Return the number of partitions of ``topic``; 0 if it does not exist."""
    topics = _admin(brokers, client).list_topics(timeout=_SECONDS).topics
    ready = [p for p in topics[topic].partitions.values() if p.leader >= 0] if topic in topics else []
    return len(ready)


def offsets(brokers: str, topic: str, *, client: Client = _NONE) -> dict[int, tuple[int, int]]:
    """Return first and next offset by partition."""
    kafka = require("confluent_kafka")
    consumer = kafka.Consumer({**_quiet(brokers, client), **_CONSUMER})
    try:
        return {
            partition: consumer.get_watermark_offsets(kafka.TopicPartition(topic, partition), timeout=_SECONDS)
            for partition in range(_existing(brokers, topic, client))
        }
    finally:
        consumer.close()


def end_offsets(brokers: str, topic: str, *, client: Client = _NONE) -> dict[int, int]:
    """Return the offset of the next message, by partition."""
    return {partition: high for partition, (_, high) in offsets(brokers, topic, client=client).items()}


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────


def produce(brokers: str, topic: str, messages: Iterable[Message], *, client: Client = _NONE) -> int:
    """Send ``messages`` in order; returns their number when the broker has all of them.

    If the iterable itself fails, the messages before that are sent.
    """
    errors: list[Any] = []

    def failed(error: Any, _: object) -> None:
        errors.append(error)

    producer = require("confluent_kafka").Producer({**_quiet(brokers, {}), **_PRODUCER, **client})
    count = 0
    try:
        for count, message in enumerate(messages, 1):
            while not _queued(producer, topic, message, failed):
                producer.poll(0.05)
            if count % 10_000 == 0:
                producer.poll(0)
                if errors:
                    break
    finally:
        left = producer.flush(_SECONDS)
    if errors or left:
        raise StreamlingError(
            f"cannot write to the topic {topic!r} on {brokers}: "
            f"{errors[0].str() if errors else f'{left} messages were not taken within {_SECONDS} s'}",
            remedy="see streamling dev status; writing to a missing topic does not create it",
        )
    return count


def consume(
    brokers: str,
    topic: str,
    *,
    start: Mapping[int, int] | None = None,
    limit: int | None = None,
    follow: bool = False,
    client: Client = _NONE,
) -> Iterator[Message]:
    """Yield the messages of ``topic``, ordered by partition, from its beginning or from the offsets ``start``.

    Ends after ``limit`` messages, or at the end that each partition had when it was reached; with ``follow`` only
    ``limit`` ends it. Joins no group, commits nothing.
    """
    kafka = require("confluent_kafka")
    partitions = range(_existing(brokers, topic, client))
    first = dict.fromkeys(partitions, kafka.OFFSET_BEGINNING) | dict(start or {})
    consumer = kafka.Consumer({**_quiet(brokers, {}), **_CONSUMER, **client})
    try:
        consumer.assign([kafka.TopicPartition(topic, partition, first[partition]) for partition in partitions])
        yield from _received(consumer, limit, set() if follow else set(partitions), follow)
    finally:
        consumer.close()


def _received(consumer: Any, limit: int | None, unread: set[int], follow: bool) -> Iterator[Message]:
    kafka = require("confluent_kafka")
    count = 0
    while (follow or unread) and (limit is None or count < limit):
        room = 10_000 if limit is None else min(10_000, limit - count)
        for received in consumer.consume(room, timeout=0.2):
            error = received.error()
            if error is None:
                count += 1
                yield _message(received)
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                unread.discard(received.partition())
            else:
                raise StreamlingError(f"cannot read the topic {received.topic()!r}: {error.str()}")


def _message(received: Any) -> Message:
    return Message(
        value=received.value(),
        key=received.key(),
        headers=tuple(received.headers() or ()),
        partition=received.partition(),
        offset=received.offset(),
        timestamp=received.timestamp()[1],
    )


def _queued(producer: Any, topic: str, message: Message, failed: Any) -> bool:
    value, key, headers, partition, _, timestamp = message
    try:
        producer.produce(topic, value, key, partition, on_delivery=failed, timestamp=timestamp, headers=list(headers))
    except BufferError:
        return False
    return True


# ── the broker ──────────────────────────────────────────────────────────────────────────────────────────────


def _quiet(brokers: str, client: Client) -> dict[str, Any]:
    """Return settings of a client that prints no errors: they are raised as exceptions, too."""
    return {"bootstrap.servers": brokers, "log_level": 0, **client}


def _admin(brokers: str, client: Client) -> Any:
    return require("confluent_kafka.admin").AdminClient(_quiet(brokers, client))


def _existing(brokers: str, topic: str, client: Client) -> int:
    partitions = partition_count(brokers, topic, client=client)
    if not partitions:
        raise StreamlingError(f"there is no topic {topic!r} on {brokers}")
    return partitions


def _ask(brokers: str, client: Client, request: Callable[[Any], Mapping[Any, Any]], doing: str) -> None:
    admin = _admin(brokers, client)  # must live until all requests are answered
    for future in request(admin).values():
        try:
            future.result(timeout=_SECONDS)
        except require("confluent_kafka").KafkaException as error:
            raise StreamlingError(f"cannot {doing} on {brokers}: {error.args[0].str()}") from None


def _wait(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise StreamlingError(f"waited {_SECONDS} s for {what}")
        time.sleep(0.02)
