"""Node types for measuring: sources that never run dry, end at a given position or stay silent; sinks that drop
rows."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.connectors.file.source import FileSource
from streamling.connectors.kafka.source import KafkaSource
from streamling.connectors.kafka.source_options import KafkaSourceOptions
from streamling.pipeline.options import SinkOptions, SourceOptions
from streamling.plugins import Sink, Source, SparkRead, Stream, StreamBatch, StreamedSource, plugin
from streamling.plugins.sources import END, End, Position, SourceBatch, Wait
from streamling.plugins.streams import SmallBatches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RateOptions(SourceOptions):
    """Fields of a `bench.rate` source."""

    rows: int = 1000
    #: batches after which the pipeline is asked to stop
    batches: int = 100


@plugin("bench.rate")
class RateSource(StreamedSource[RateOptions]):
    """Rows as those of Spark's `rate-micro-batch`: the next batch is always available, so they follow each other
    without a pause."""

    Options = RateOptions
    #: called when a batch has been delivered
    on_batch: Callable[[float], None] = staticmethod(lambda moment: None)

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("timestamp", pa.timestamp("us", "UTC")), pa.field("value", pa.int64())])

    def stream(self, spark: SparkSession, position: Position) -> Stream:
        return _RateStream(self, position)

    def delivered(self, batches: int) -> None:
        """So many batches have been delivered."""
        self.on_batch(time.monotonic())
        if batches > self.options.batches:
            self.context.request_stop("measured enough", False)


class _RateStream(Stream):
    def __init__(self, source: RateSource, position: Position) -> None:
        self.position = position
        self._source = source
        self._batches = 0

    def next(self) -> StreamBatch:
        if self._batches:
            self._source.delivered(self._batches)
        rows = self._source.options.rows
        first = self._batches * rows
        self._batches += 1
        return StreamBatch(SparkRead(partial(_rate, first, rows)), {self._source.context.name: first + rows}, rows)

    def wake(self) -> None:
        """It never waits."""

    def close(self) -> None:
        """There is nothing to close."""


def _rate(first: int, rows: int, spark: SparkSession) -> DataFrame:
    return spark.range(first, first + rows).selectExpr("timestamp_millis(id) AS timestamp", "id AS value")


@plugin("bench.files")
class PrecededFiles(FileSource):
    """Emits the first file alone: its additional work, such as filling the dynamic tables, belongs to the start."""

    #: called when that file has been processed
    on_batch: Callable[[float], None] = staticmethod(lambda moment: None)

    def open(self) -> None:
        super().open()
        self._first = True

    def read(self, position: Position) -> SourceBatch | Wait | End:
        if not self._first:
            self.on_batch(time.monotonic())
            return super().read(position)
        self._first = False
        usual, self._reader.batch_bytes = self._reader.batch_bytes, 0
        try:
            return super().read(position)
        finally:
            self._reader.batch_bytes = usual


class ChangesOptions(KafkaSourceOptions):
    """Fields of a `bench.changes` source."""

    #: messages of the only partition after which the pipeline is asked to stop
    records: int


@plugin("bench.changes")
class ChangesSource(KafkaSource):
    """A topic of one partition, from its beginning to a given message."""

    Options = ChangesOptions
    #: called with the moment and the next offset, at the start and after each batch
    on_batch: Callable[[float, int], None] = staticmethod(lambda moment, offset: None)

    def stream(self, spark: SparkSession, position: Position) -> Stream | None:
        stream = super().stream(spark, position)
        return None if stream is None else _ChangesStream(self, stream)

    def delivered(self, position: Position) -> None:
        """Everything before ``position`` has been delivered."""
        assert isinstance(self.options, ChangesOptions)
        offset = self._offsets.of(position).get(0, 0)
        self.on_batch(time.monotonic(), offset)
        if offset >= self.options.records:
            self.context.request_stop("measured enough", False)


class _ChangesStream(Stream):
    def __init__(self, source: ChangesSource, stream: Stream) -> None:
        self._source = source
        self._stream = stream
        self.position = stream.position
        self._has_moved = True

    def start(self, small: SmallBatches, on_ready: Callable[[], None]) -> None:
        """They are Spark jobs."""
        self._stream.on_ready = on_ready

    def next(self) -> StreamBatch | Wait | None:
        if self._has_moved:
            self._source.delivered(self.position)
        batch = self._stream.next()
        self._has_moved = isinstance(batch, StreamBatch)
        if isinstance(batch, StreamBatch):
            self.position = batch.position
        return batch

    def wake(self) -> None:
        self._stream.wake()

    def close(self) -> None:
        self._stream.close()


@plugin("bench.batches")
class BatchesSource(Source[SourceOptions]):
    """Arrow batches that are in memory."""

    Options = SourceOptions
    bounded = True
    batches: Sequence[pa.RecordBatch] = ()

    def schema(self) -> pa.Schema:
        return self.batches[0].schema

    def read(self, position: Position) -> SourceBatch | Wait | End:
        number = int(position.get(self.context.state_key) or 0)
        if number == len(self.batches):
            return END
        return SourceBatch(self.batches[number], {self.context.state_key: number + 1})


class LinesOptions(SourceOptions):
    """Fields of a `bench.lines` source."""

    port: int


@plugin("bench.lines")
class LinesSource(StreamedSource[LinesOptions]):
    """Lines received from a local port."""

    Options = LinesOptions

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("value", pa.string())])

    def stream(self, spark: SparkSession, position: Position) -> Stream:
        return _LineStream(self, position)


class _LineStream(Stream):
    def __init__(self, source: LinesSource, position: Position) -> None:
        self.position = position
        self._name = source.context.name
        self._lines = 0
        self._connection = socket.create_connection(("127.0.0.1", source.options.port))
        self._waker, self._woken = socket.socketpair()

    def next(self) -> StreamBatch | None:
        ready, _, _ = select.select([self._connection, self._woken], [], [])
        if self._woken in ready:
            self._woken.recv(4096)
        if self._connection not in ready:
            return None
        lines = self._connection.recv(4096).decode().splitlines()
        self._lines += len(lines)
        return StreamBatch(pa.record_batch({"value": lines}), {self._name: self._lines}, len(lines))

    def wake(self) -> None:
        self._waker.send(b".")

    def close(self) -> None:
        for each in (self._connection, self._waker, self._woken):
            each.close()


@plugin("bench.drop")
class DropSink(Sink[SinkOptions]):
    """Discards Arrow batches."""

    Options = SinkOptions

    def write(self, batch: pa.RecordBatch) -> None:
        return None


class SlowOptions(SinkOptions):
    """Fields of a `bench.slow` sink."""

    seconds: float


@plugin("bench.slow")
class SlowSink(Sink[SlowOptions]):
    """Sleeps for every batch."""

    Options = SlowOptions

    def write(self, batch: pa.RecordBatch) -> None:
        time.sleep(self.options.seconds)
