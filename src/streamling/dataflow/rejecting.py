"""Operators that reject the rows they fail with, and continue."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.plugins.rejects import reject_failing_rows
from streamling.plugins.sinks import Acknowledge, Sink
from streamling.plugins.transforms import AsyncCalls, Transform


class RejectingTransform(Transform[Any]):
    """A transform that rejects the rows it fails with."""

    def __init__(self, transform: Transform[Any]) -> None:
        super().__init__(transform.context)
        self._transform = transform

    def output_schema(self) -> pa.Schema:
        return self._transform.output_schema()

    def with_input_schema(self, schema: pa.Schema) -> RejectingTransform:
        return RejectingTransform(self._transform.with_input_schema(schema))

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch | AsyncCalls[Any]:
        made: list[pa.RecordBatch | AsyncCalls[Any]] = []
        reject_failing_rows(lambda part: made.append(self._transform.process(part)), batch, self.context.reject)
        if len(made) == 1:
            return made[0]
        schema = self.output_schema()
        rows = pa.Table.from_batches([_rows(one) for one in made], schema)
        return pa.record_batch([column.combine_chunks() for column in rows.columns], schema=schema)

    def open(self) -> None:
        self._transform.open()

    def close(self) -> None:
        self._transform.close()

    def marker(self, epoch: int) -> None:
        self._transform.marker(epoch)

    def finalized(self, epoch: int) -> None:
        self._transform.finalized(epoch)


class RejectingSink(Sink[Any]):
    """A sink that rejects the rows it fails with."""

    def __init__(self, sink: Sink[Any]) -> None:
        super().__init__(sink.context)
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        reject_failing_rows(self._sink.write, batch, self.context.reject)

    def open(self) -> None:
        self._sink.open()

    def close(self) -> None:
        self._sink.close()

    def flush(self) -> None:
        self._sink.flush()

    def on_first_marker(self, epoch: int) -> None:
        self._sink.on_first_marker(epoch)

    def marker(self, epoch: int, acknowledge: Acknowledge) -> None:
        self._sink.marker(epoch, acknowledge)

    def finalized(self, epoch: int) -> None:
        self._sink.finalized(epoch)


def _rows(made: pa.RecordBatch | AsyncCalls[Any]) -> pa.RecordBatch:
    if isinstance(made, AsyncCalls):
        raise StreamlingError("it raised a BadRow and returned calls: reject rows with context.reject instead")
    return made
