"""Memory sink: keeps rows in this process, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa
from pydantic import Field

from streamling.pipeline.options import ParallelOptions, SinkOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.operators import OP_COLUMN, Operator, Sink


class MemorySinkOptions(ParallelOptions, SinkOptions):
    """Collects rows; a test reads them from the running pipeline."""

    exclude_gs_op: bool = Field(default=False, description="Drop the `_gs_op` column.")


class _Run(Protocol):
    def operators(self, node: str) -> Iterable[Operator[Any]]: ...


def collected_rows(run: _Run, sink: str) -> pa.Table:
    """Return the rows that all instances of the memory sink ``sink`` of ``run`` hold."""
    return pa.concat_tables([each.table() for each in run.operators(sink) if isinstance(each, MemorySink)])


class MemorySink(Sink[MemorySinkOptions]):
    """Rows are visible through `table` as soon as they are written."""

    Options = MemorySinkOptions

    def __init__(self, context: NodeContext[MemorySinkOptions]) -> None:
        super().__init__(context)
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if self.options.exclude_gs_op and OP_COLUMN in batch.schema.names:
            batch = batch.drop_columns([OP_COLUMN])
        self._batches.append(batch)

    def table(self) -> pa.Table:
        """Return all rows written so far, with all columns that any batch had."""
        batches = list(self._batches)  # the lane keeps writing
        if not batches:
            return self._empty()
        return pa.concat_tables(map(pa.table, batches), promote_options="permissive")

    def _empty(self) -> pa.Table:
        schema = self.context.input_schema
        names = [name for name in schema.names if not (self.options.exclude_gs_op and name == OP_COLUMN)]
        return schema.empty_table().select(names)
