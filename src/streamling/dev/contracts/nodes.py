"""The ends of a pipeline under test: a source of prepared batches, and a sink that records rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from streamling.pipeline.options import SinkOptions, SourceOptions
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, End, Position, Source, SourceBatch, Wait


class BatchListOptions(SourceOptions):
    """The source of prepared batches has no options."""


class BatchListSource(Source[BatchListOptions]):
    """Emits prepared batches in order, including empty ones; its position is the number emitted."""

    Options = BatchListOptions
    batches: ClassVar[Sequence[pa.RecordBatch]]
    #: called with the number of the batch that is about to be emitted
    on_read: ClassVar[Callable[[int], object]]
    bounded = True

    def schema(self) -> pa.Schema:
        return self.batches[0].schema

    def read(self, position: Position) -> SourceBatch | Wait | End:
        at = position.get(self.context.name, 0)
        if at >= len(self.batches):
            return END if self.bounded else Wait(0.02)
        type(self).on_read(at)
        return SourceBatch(self.batches[at], {self.context.name: at + 1})


class RecordingSinkOptions(SinkOptions):
    """The recording sink has no options."""


class RecordingSink(Sink[RecordingSinkOptions]):
    """Keeps rows in ``pending`` until ``flush``, then in its ``written_rows``, which outlives the run."""

    Options = RecordingSinkOptions
    pending: ClassVar[list[dict[str, Any]]]
    written_rows: ClassVar[list[dict[str, Any]]]
    schemas: ClassVar[list[pa.Schema]]
    #: called before each write with the number of rows so far, and before each flush with the number of pending rows
    before_write: ClassVar[Callable[[int], object]]
    before_flush: ClassVar[Callable[[int], object]]

    def open(self) -> None:
        self.pending.clear()

    def write(self, batch: pa.RecordBatch) -> None:
        type(self).before_write(len(self.written_rows) + len(self.pending))
        self.schemas.append(batch.schema)
        self.pending.extend(batch.to_pylist())

    def flush(self) -> None:
        type(self).before_flush(len(self.pending))
        self.written_rows.extend(self.pending)
        self.pending.clear()
