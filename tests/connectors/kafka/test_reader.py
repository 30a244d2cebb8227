"""Messages that wait in the driver's JVM: exact offsets, bounded buffers, and one consumer for many streams."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from py4j.protocol import Py4JJavaError

from streamling.connectors.kafka.reader import BUFFER_MESSAGES, MessageBuffer, Taken
from streamling.dev.services.topics import Message, add_partitions, create_topic, delete_records, produce
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.services]

_numbers = itertools.count(1)
Open = Callable[..., MessageBuffer]


@pytest.fixture
def topic(kafka) -> str:
    name = f"read-{next(_numbers)}"
    create_topic(kafka.brokers, name, partitions=2)
    return name


@pytest.fixture
def open_buffer(spark, kafka) -> Iterator[Open]:
    opened = []

    def make(topic: str, offsets: dict[int, int], *, is_whole: bool = True, client: str = "test") -> MessageBuffer:
        settings = {"bootstrap.servers": kafka.brokers, "client.id": client}
        buffer = MessageBuffer(spark, settings, "read_committed", topic, offsets, is_whole=is_whole)
        opened.append(buffer)
        return buffer

    yield make
    for buffer in opened:
        buffer.close()
    eventually(lambda: _readers(spark) == 0)


def _readers(spark) -> int:
    threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet()
    return sum(thread.getName() == "kafka reader" for thread in threads)


def _send(kafka, topic: str, count: int, partition: int = 0) -> None:
    produce(kafka.brokers, topic, [Message(b"%d" % number, partition=partition) for number in range(count)])


def _take(buffer: MessageBuffer, least: int = 1, most: int = 100) -> Taken:
    taken = buffer.take(20, least, most)
    assert taken is not None
    return taken


def test_a_message_wakes_the_thread_that_waits_for_it(kafka, topic, open_buffer) -> None:
    buffer = open_buffer(topic, {0: 0, 1: 0})
    _send(kafka, topic, 1, partition=1)
    taken = _take(buffer)
    assert (taken.count, taken.offsets) == (1, {1: 1})


def test_offsets_are_those_after_the_messages_taken(kafka, topic, open_buffer) -> None:
    _send(kafka, topic, 5)
    buffer = open_buffer(topic, {0: 0, 1: 0})
    assert _take(buffer, least=5, most=2).offsets == {0: 2}
    assert _take(buffer, most=2).offsets == {0: 4}
    assert _take(buffer, most=2).offsets == {0: 5}


def test_nothing_is_taken_before_there_are_enough(kafka, topic, open_buffer) -> None:
    _send(kafka, topic, 3)
    buffer = open_buffer(topic, {0: 0, 1: 0})
    assert buffer.take(1, 4, 100) is None
    _send(kafka, topic, 1)
    assert _take(buffer, least=4).count == 4


def test_a_call_from_another_thread_ends_the_wait(topic, open_buffer) -> None:
    buffer = open_buffer(topic, {0: 0, 1: 0})
    threading.Timer(0.2, buffer.wake).start()
    began = time.monotonic()
    assert buffer.take(60, 1, 100) is None
    assert time.monotonic() - began < 30


def test_a_wake_up_before_the_wait_is_not_lost(topic, open_buffer) -> None:
    buffer = open_buffer(topic, {0: 0, 1: 0})
    buffer.wake()
    began = time.monotonic()
    assert buffer.take(60, 1, 100) is None
    assert time.monotonic() - began < 30


def test_a_full_buffer_takes_no_more_messages(kafka, topic, open_buffer) -> None:
    _send(kafka, topic, 3 * BUFFER_MESSAGES)
    buffer = open_buffer(topic, {0: 0, 1: 0})
    eventually(buffer.is_full)
    assert buffer.take(1, 1, 200_000) is None  # a larger batch is a Spark job
    counts = []
    while sum(counts) < 3 * BUFFER_MESSAGES:
        counts.append(_take(buffer, most=BUFFER_MESSAGES).count)
    assert sum(counts) == 3 * BUFFER_MESSAGES


def test_after_a_seek_only_messages_from_there_on_are_taken(kafka, topic, open_buffer) -> None:
    _send(kafka, topic, 3 * BUFFER_MESSAGES)
    buffer = open_buffer(topic, {0: 0, 1: 0})
    eventually(buffer.is_full)
    buffer.seek({0: 3 * BUFFER_MESSAGES - 2, 1: 0})
    taken = _take(buffer, least=2)
    assert (taken.count, taken.offsets) == (2, {0: 3 * BUFFER_MESSAGES})


def test_the_last_of_several_seeks_counts(kafka, topic, open_buffer) -> None:
    _send(kafka, topic, 1000)
    buffer = open_buffer(topic, {0: 0, 1: 0})
    for _ in range(50):
        for offset in (0, 500, 998):
            buffer.seek({0: offset, 1: 0})
        taken = _take(buffer, least=2)
        assert (taken.count, taken.offsets) == (2, {0: 1000})


def test_streams_share_a_consumer_unless_they_read_the_same_partition(spark, kafka, topic, open_buffer) -> None:
    first, second = (open_buffer(topic, {number: 0}, is_whole=False) for number in (0, 1))
    eventually(lambda: _readers(spark) == 1)
    third = open_buffer(topic, {0: 0}, is_whole=False)
    eventually(lambda: _readers(spark) == 2)
    _send(kafka, topic, 3)
    _send(kafka, topic, 2, partition=1)
    counts = [_take(buffer, least=least).count for buffer, least in ((first, 3), (second, 2), (third, 3))]
    assert counts == [3, 2, 3]


def test_clients_with_other_settings_have_their_own_consumer(spark, topic, open_buffer) -> None:
    open_buffer(topic, {0: 0}, is_whole=False)
    open_buffer(topic, {1: 0}, is_whole=False, client="other")
    eventually(lambda: _readers(spark) == 2)


def test_a_missing_offset_ends_only_the_stream_that_reads_it(kafka, topic, open_buffer) -> None:
    _send(kafka, topic, 5)
    delete_records(kafka.brokers, topic, {0: 3})
    bad, good = open_buffer(topic, {0: 1}, is_whole=False), open_buffer(topic, {1: 0}, is_whole=False)
    with pytest.raises(Py4JJavaError, match="OffsetOutOfRange"):
        bad.take(20, 1, 100)
    _send(kafka, topic, 1, partition=1)
    assert _take(good).count == 1


def test_new_partitions_end_a_stream_that_reads_all_of_them(kafka, topic, open_buffer) -> None:
    whole, part = open_buffer(topic, {0: 0, 1: 0}), open_buffer(topic, {0: 0}, is_whole=False)
    add_partitions(kafka.brokers, topic, 3)
    with pytest.raises(Py4JJavaError, match="NewPartitionsException"):
        whole.take(20, 1, 100)
    _send(kafka, topic, 1)
    assert _take(part).count == 1


def test_streams_that_do_not_return_do_not_hold_up_the_others(spark, kafka, topic, open_buffer) -> None:
    """Their sinks are slow, say: they lose their turns."""
    turns = 2 * spark._jvm.java.lang.Runtime.getRuntime().availableProcessors()
    _send(kafka, topic, 1)
    for _ in range(turns + 2):
        assert _take(open_buffer(topic, {0: 0, 1: 0})).count == 1
