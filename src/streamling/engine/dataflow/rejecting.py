"""Calls of operators that reject the rows they fail with, and continue."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.plugins.rejects import reject_failing_rows
from streamling.plugins.sinks import Sink
from streamling.plugins.transforms import AsyncCalls, Transform

#: what a transform makes of a batch
Result: TypeAlias = pa.RecordBatch | AsyncCalls[Any]


def write_or_reject(sink: Sink[Any], batch: pa.RecordBatch) -> None:
    """Write ``batch`` without the rows with which the sink fails."""
    reject_failing_rows(sink.write, batch, sink.context.reject)


def process_or_reject(transform: Transform[Any], batch: pa.RecordBatch) -> Result:
    """The result of ``batch`` without the rows with which the transform fails."""
    made: list[Result] = []
    reject_failing_rows(lambda part: made.append(transform.process(part)), batch, transform.context.reject)
    if len(made) == 1:
        return made[0]
    schema = transform.output_schema()
    rows = pa.Table.from_batches([_rows(one) for one in made], schema)
    return pa.record_batch([column.combine_chunks() for column in rows.columns], schema=schema)


def _rows(made: Result) -> pa.RecordBatch:
    if isinstance(made, AsyncCalls):
        raise StreamlingError("it raised a BadRow and returned calls: reject rows with context.reject instead")
    return made
