"""The stream of a Kafka source: small batches as messages in the driver's JVM, large ones as Spark jobs."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.batch_options import BatchSize, end_offsets
from streamling.connectors.kafka.decode.errors import reading_error
from streamling.connectors.kafka.errors import error_text
from streamling.connectors.kafka.offsets import Offsets
from streamling.connectors.kafka.reader import BUFFER_MESSAGES, MessageBuffer
from streamling.errors import StreamlingError
from streamling.plugins.sources import Position, SparkRead, Wait
from streamling.plugins.streams import Stream, StreamBatch, StreamRestart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader

#: seconds between two checks whether a batch that is larger than the buffer is full
_FULL_CHECK = 0.1


@dataclass(frozen=True)
class TopicReader:
    """How the messages of a topic are read and decoded."""

    admin: KafkaAdmin
    offsets: Offsets
    size: BatchSize
    #: has all options except the range, which every batch sets: each option is a call into the JVM
    spark: DataFrameReader
    #: number of tasks that read whole partitions; None: Spark decides
    tasks: int | None
    #: makes the rows of messages, for which it uses a plan that it makes once
    decode: Callable[[DataFrame], DataFrame]
    #: starts to read messages as they arrive, from these offsets on; calls back when there are some
    subscribe: Callable[[Mapping[int, int], Callable[[], None]], MessageBuffer]

    def messages(self, start: Mapping[int, int], end: Mapping[int, int]) -> DataFrame:
        """Return the messages between two offsets of each partition, as Spark reads them."""
        read = {partition: offset for partition, offset in start.items() if offset < end[partition]}
        messages = self.spark.options(
            assign=json.dumps({self.offsets.topic: sorted(read)}),
            startingOffsets=self.offsets.spark(read),
            endingOffsets=self.offsets.spark({partition: end[partition] for partition in read}),
        ).load()
        return messages if self.tasks is None else messages.coalesce(self.tasks)


class KafkaStream(Stream):
    """Delivers messages as they arrive. If there are more than the buffer holds, Spark reads exactly their offsets, one
    job after another, until there are fewer."""

    def __init__(self, reader: TopicReader, position: Position, start: Mapping[int, int]) -> None:
        """``start`` are the offsets of all partitions, at ``position``."""
        self.position = position
        self._reader = reader
        self._current = position
        #: offsets before the last batch
        self._batch_start: Mapping[int, int] = dict(start)
        #: offsets after the last batch
        self.offsets: Mapping[int, int] = dict(start)
        #: time of the last batch
        self._last_batch: float | None = None
        #: whether there may be more messages than the buffer holds
        self._is_behind = reader.size.rows > BUFFER_MESSAGES
        #: whether Spark has read messages that are in the buffer, or follow it
        self._has_moved = False
        #: whether the buffer knows what to do with its messages
        self._has_steps = False
        #: guards the two below: `wake` may be called before there is a buffer
        self._lock = threading.Lock()
        self._buffer: MessageBuffer | None = None
        self._is_woken = False

    # ── the protocol ────────────────────────────────────────────────────────────────────────────────────────

    def next(self) -> StreamBatch | Wait | None:
        from py4j.protocol import Py4JJavaError

        topic = self._reader.offsets.topic
        try:
            if not self._is_behind:
                return self._small_batch()
            if not self._is_woken:
                return self._large_batch()
            self._is_woken = False
            return None
        except Py4JJavaError as error:
            restart = reading_error(error_text(error), topic)
            raise restart or _restart_if_retriable(self._reader.admin.translate_error(error, topic)) from None
        except StreamlingError as error:
            raise _restart_if_retriable(error) from None

    def wake(self) -> None:
        with self._lock:
            self._is_woken = True
            if self._buffer is not None:
                self._buffer.wake()

    @property
    def shared_with(self) -> int:
        return 0 if self._buffer is None else self._buffer.shared_with

    def is_evaluating(self) -> bool:
        return self._buffer is not None and self._buffer.is_evaluating()

    def close(self) -> None:
        if self._buffer is not None:
            self._buffer.close()

    # ── batches ─────────────────────────────────────────────────────────────────────────────────────────────

    def _small_batch(self) -> StreamBatch | Wait | None:
        size, left, small = self._reader.size, self._time_left(), self.small
        steps, buffer = None if small is None else small.steps(), self._filled_buffer()
        if not self._has_steps:
            self._has_steps = True
            buffer.run(steps or ())
        interval = 0.0 if small is None or steps is None or size.interval is not None else small.interval
        taken = buffer.poll(size.rows if left else 1, size.rows, interval)
        if isinstance(taken, Wait):
            return Wait(left or math.inf)
        if taken is None:
            self._is_woken = False
            self._is_behind = size.rows > BUFFER_MESSAGES and buffer.is_full()
            return None
        batch = self._batch({**self.offsets, **taken.offsets}, has_messages=taken.count > 0)
        if steps is None:
            return batch
        if taken.failure is not None:  # the stream ends here
            self._batch_start, self.offsets = self.offsets, {**self.offsets, **taken.failed_offsets}
        results, failure = taken.results, taken.failure
        return replace(
            batch,
            results=results,
            failure=failure,
            messages=taken.messages,
            busy=taken.busy,
            cpu_seconds=taken.cpu_seconds,
            continues=taken.continues,
        )

    def _large_batch(self) -> StreamBatch | Wait | None:
        rows, left = self._reader.size.rows, self._time_left()
        ends = self._reader.offsets.latest(self._reader.admin, sorted(self.offsets))
        available = sum(max(0, end - self.offsets[partition]) for partition, end in ends.items())
        if left and available < rows:
            return Wait(min(left, _FULL_CHECK))
        is_full = self._buffer is not None and not self._has_moved
        if available <= BUFFER_MESSAGES and not is_full:
            self._is_behind = False
            return self._small_batch()
        self._has_moved = True
        return self._batch(end_offsets(self.offsets, ends, rows))

    def _time_left(self) -> float:
        """Return the seconds that a batch waits for more messages."""
        interval = self._reader.size.interval
        if interval is None or self._last_batch is None:
            return 0.0
        return max(0.0, self._last_batch + interval - time.monotonic())

    def _batch(self, after: Mapping[int, int], *, has_messages: bool = True) -> StreamBatch:
        """Return a batch up to ``after``, as Spark reads it."""
        before, reader = self.offsets, self._reader
        self._batch_start, self.offsets, self._last_batch = before, after, time.monotonic()
        self._current = reader.offsets.position(after, self._current)
        count = sum(offset - before[partition] for partition, offset in after.items())
        if not has_messages:
            return StreamBatch(pa.table({}), self._current, count)
        rows = SparkRead(lambda _: reader.decode(reader.messages(before, after)))
        return StreamBatch(rows, self._current, count)

    def last_messages(self) -> DataFrame:
        """Return the messages of the last batch, as Spark reads them."""
        return self._reader.messages(self._batch_start, self.offsets)

    def _filled_buffer(self) -> MessageBuffer:
        """Return the buffer with the messages that follow the last batch."""
        if self._buffer is None:
            buffer = self._reader.subscribe(self.offsets, self.on_ready)
            with self._lock:
                self._buffer = buffer
                if self._is_woken:
                    buffer.wake()
        elif self._has_moved:
            self._buffer.seek(self.offsets)
        self._has_moved = False
        return self._buffer


def _restart_if_retriable(error: StreamlingError) -> StreamlingError:
    return StreamRestart(error.message, retriable=True) if error.retriable else error
