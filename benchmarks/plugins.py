"""Node types for measuring: sources that never run dry, end at a given position or stay silent; sinks that drop
rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.connectors.file.source import FileSource
from streamling.connectors.kafka.source import KafkaSource, KafkaSourceOptions
from streamling.pipeline.options import SinkOptions, SourceOptions
from streamling.plugins import Sink, Source, StreamedSource, plugin
from streamling.plugins.operators import END, End, Position, SourceBatch, Wait

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RateOptions(SourceOptions):
    """Fields of a `bench.rate` source."""

    rows: int = 1000
    #: batches after which the pipeline is asked to stop
    batches: int = 100


@plugin("bench.rate")
class RateSource(StreamedSource[RateOptions]):
    """Spark's `rate-micro-batch`: the next batch is always available, so triggers follow each other without a pause."""

    Options = RateOptions
    #: called when a batch has been delivered
    on_batch: Callable[[float], None] = staticmethod(lambda moment: None)

    def open(self) -> None:
        self._batches = 0

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("timestamp", pa.timestamp("us", "UTC")), pa.field("value", pa.int64())])

    def stream(self, spark: SparkSession, position: Position) -> DataFrame:
        return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", self.options.rows).load()

    def position_after(self, offset: str, previous: Position) -> Position:
        self.on_batch(time.monotonic())
        self._batches += 1
        if self._batches > self.options.batches:
            self.context.request_stop("measured enough", False)
        return {self.context.name: offset}


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

    def position_after(self, offset: str, previous: Position) -> Position:
        position = super().position_after(offset, previous)
        assert isinstance(self.options, ChangesOptions)
        if self._offsets.of(position)[0] >= self.options.records:
            self.context.request_stop("measured enough", False)
        return position


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

    def stream(self, spark: SparkSession, position: Position) -> DataFrame:
        reader = spark.readStream.format("socket")
        return reader.option("host", "127.0.0.1").option("port", self.options.port).load()

    def position_after(self, offset: str, previous: Position) -> Position:
        return {self.context.name: offset}


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
