"""Messages that wait in the driver's JVM: exact offsets, bounded buffers, and one consumer for all streams."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from py4j.protocol import Py4JJavaError

from streamling.connectors.kafka.local_plan import MessagePlan, message_template
from streamling.connectors.kafka.reader import BUFFER_MESSAGES, Taken
from streamling.dev.services.topics import Message, add_partitions, create_topic, delete_records, produce
from tests.harness.buffers import WaitingBuffer
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.services]

_numbers = itertools.count(1)
Open = Callable[..., WaitingBuffer]


@pytest.fixture
def topic(kafka) -> str:
    name = f"read-{next(_numbers)}"
    create_topic(kafka.brokers, name, partitions=2)
    return name


@pytest.fixture
def open_buffer(spark, kafka) -> Iterator[Open]:
    opened = []

    def make(topic: str, offsets: dict[int, int], *, is_whole: bool = True, client: str = "test") -> WaitingBuffer:
        settings = {"bootstrap.servers": kafka.brokers, "client.id": client}
        buffer = WaitingBuffer(spark, settings, "read_committed", topic, offsets, is_whole=is_whole)
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


def _take(buffer: WaitingBuffer, least: int = 1, most: int = 100) -> Taken:
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


def test_streams_share_a_consumer(spark, kafka, topic, open_buffer) -> None:
    buffers = [open_buffer(topic, {number: 0}, is_whole=False) for number in (0, 1, 0)]
    _send(kafka, topic, 3)
    _send(kafka, topic, 2, partition=1)
    counts = [_take(buffer, least=least).count for buffer, least in zip(buffers, (3, 2, 3), strict=True)]
    assert counts == [3, 2, 3]
    assert _readers(spark) == 1


def test_buffers_know_how_many_others_get_the_messages_of_the_same_consumer(kafka, topic, open_buffer) -> None:
    first, second, other = (open_buffer(topic, {0: 0, 1: 0}, client=client) for client in ("test", "test", "other"))
    assert (first.shared_with, second.shared_with, other.shared_with) == (1, 1, 0)
    second.close()
    assert first.shared_with == 0


class Reading:
    """A stream of partition 0 that checks that it gets every message once, in order."""

    def __init__(self, spark, buffer: WaitingBuffer, offset: int = 0) -> None:
        self._plan = MessagePlan.of(message_template(spark, headers=False).select("partition", "offset"), headers=False)
        self.buffer = buffer
        self.offset = offset

    def read(self, most: int = 5000, seconds: float = 0.0) -> None:
        taken = self.buffer.take(seconds, 1, most)
        if taken is None:
            return
        rows = self._plan.to_arrow(taken.messages).to_pylist()
        offsets = [row["offset"] for row in rows if row["partition"] == 0]
        assert offsets == list(range(self.offset, self.offset + len(offsets)))
        self.offset = taken.offsets.get(0, self.offset)

    def read_to(self, offset: int) -> None:
        deadline = time.monotonic() + 60
        while self.offset < offset:
            assert time.monotonic() < deadline, f"is at {self.offset}, not at {offset}"
            self.read(seconds=0.1)


def test_a_stream_that_starts_further_back_gets_the_messages_that_others_have_read(
    spark, kafka, topic, open_buffer
) -> None:
    _send(kafka, topic, 50)
    first = Reading(spark, open_buffer(topic, {0: 20, 1: 0}), 20)
    first.read_to(50)
    second, third = (Reading(spark, open_buffer(topic, {0: offset, 1: 0}), offset) for offset in (0, 40))
    second.read_to(50)
    third.read_to(50)
    _send(kafka, topic, 10)
    for each in (first, second, third):
        each.read_to(60)
    assert _readers(spark) == 1


def test_a_stream_that_starts_far_behind_reads_alone_until_it_has_caught_up(spark, kafka, topic, open_buffer) -> None:
    count = 3 * BUFFER_MESSAGES
    first = Reading(spark, open_buffer(topic, {0: 0, 1: 0}))
    _send(kafka, topic, count)
    first.read_to(count)
    second = Reading(spark, open_buffer(topic, {0: 0, 1: 0}))
    eventually(lambda: _readers(spark) == 2)
    second.read_to(count)
    eventually(lambda: _readers(spark) == 1)
    _send(kafka, topic, 10)
    for each in (first, second):
        each.read_to(count + 10)


def test_a_stream_that_does_not_take_its_messages_does_not_hold_up_others(spark, kafka, topic, open_buffer) -> None:
    slow, fast = (Reading(spark, open_buffer(topic, {0: 0, 1: 0})) for _ in range(2))
    for number in range(1, 6):
        _send(kafka, topic, BUFFER_MESSAGES)
        fast.read_to(number * BUFFER_MESSAGES)
    assert slow.buffer.is_full()
    slow.read_to(5 * BUFFER_MESSAGES)
    eventually(lambda: _readers(spark) == 1)


@pytest.mark.parametrize("number", range(4))
def test_streams_that_come_seek_wait_and_go_get_every_message_once(spark, kafka, topic, open_buffer, number) -> None:
    seed = int(os.environ.get("STREAMLING_TEST_SEED", time.time_ns() % 10**6)) + number
    print(f"STREAMLING_TEST_SEED={seed - number}")
    chance, end, streams = random.Random(seed), 0, []
    for _ in range(60):
        match chance.randrange(7):
            case 0 if len(streams) < 6:
                offset = chance.choice([0, end, chance.randint(0, end)])
                streams.append(Reading(spark, open_buffer(topic, {0: offset, 1: 0}), offset))
            case 1 if streams:
                streams.pop(chance.randrange(len(streams))).buffer.close()
            case 2 if streams:
                each = chance.choice(streams)
                each.offset = chance.randint(max(0, end - 30_000), end)
                each.buffer.seek({0: each.offset, 1: 0})
            case 3 | 4:
                count = chance.choice([1, 50, 3000, 15_000])
                _send(kafka, topic, count)
                end += count
            case _:
                for each in streams:
                    for _ in range(chance.randrange(4)):
                        each.read(chance.choice([1, 700, BUFFER_MESSAGES]))
    for each in streams:
        each.read_to(end)
    eventually(lambda: _readers(spark) <= 1)


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


def test_a_missing_offset_ends_only_the_stream_that_lacks_it(spark, kafka, topic, open_buffer) -> None:
    _send(kafka, topic, 5)
    delete_records(kafka.brokers, topic, {0: 3})
    good = Reading(spark, open_buffer(topic, {0: 4, 1: 0}), 4)
    good.read_to(5)
    bad = open_buffer(topic, {0: 1, 1: 0})
    with pytest.raises(Py4JJavaError, match="OffsetOutOfRange"):
        bad.take(20, 1, 100)
    _send(kafka, topic, 2)
    good.read_to(7)
