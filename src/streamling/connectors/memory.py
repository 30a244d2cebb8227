"""Memory source and sink: rows of this process, for tests and notebooks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa
from pydantic import Field

from streamling.errors import StreamlingError
from streamling.pipeline.options import ParallelOptions, SinkOptions, SourceOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.operators import Operator
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, End, Position, Source, SourceBatch, Wait
from streamling.types.row_kind import OP_COLUMN

#: what a program passes as rows: Arrow data, or one mapping per row
Rows: TypeAlias = pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]]

#: pause before an open input is checked again
_POLL_SECONDS = 0.02


# ── the source ───────────────────────────────────────────────────────────────────────────────────────────────


class MemoryInput:
    """Rows for a memory source. Methods may be called from any thread.

    Rows are kept until a checkpoint has made them durable in all sinks. A second run with the same input continues
    after them.
    """

    def __init__(self, rows: Rows = (), *, schema: pa.Schema | None = None) -> None:
        """``schema`` is required if there are no ``rows`` yet; otherwise their columns count."""
        self._lock = threading.Lock()
        self._closed = False
        self._batches: list[pa.RecordBatch] = []
        #: number of rows that have been freed
        self._first = 0
        if schema is None and not isinstance(rows, pa.Table | pa.RecordBatch) and not rows:
            raise StreamlingError.user(
                "an input without rows needs a schema", remedy="MemoryInput(schema=pa.schema(…))"
            )
        table = _table(rows, schema)
        #: columns of all rows
        self.schema: pa.Schema = table.schema
        self._batches += [batch for batch in table.to_batches() if batch.num_rows]

    def write(self, rows: Rows) -> None:
        """Add rows; the source delivers them immediately."""
        batches = [batch for batch in _table(rows, self.schema).to_batches() if batch.num_rows]
        with self._lock:
            if self._closed:
                raise StreamlingError.user("the input is closed: it takes no more rows", remedy="write before close()")
            self._batches += batches

    def close(self) -> None:
        """End the input: the source ends after the last row."""
        self._closed = True

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def first(self) -> int:
        """The number of the first row that has not been freed."""
        return self._first

    def batch_from(self, number: int) -> pa.RecordBatch | None:
        """Return the rows from ``number`` on; None if there are none yet."""
        with self._lock:
            start = self._first
            for batch in self._batches:
                if number < start + batch.num_rows:
                    return batch.slice(number - start)
                start += batch.num_rows
        return None

    def free(self, number: int) -> None:
        """Forget whole batches before the row ``number``, and where a later run continues."""
        with self._lock:
            while self._batches and self._first + self._batches[0].num_rows <= number:
                self._first += self._batches.pop(0).num_rows


class MemoryInputs:
    """The inputs of a pipeline by the names of its memory sources."""

    def __init__(self, inputs: Mapping[str, MemoryInput]) -> None:
        self.by_name = dict(inputs)

    def close(self) -> None:
        """Release nothing: the inputs belong to the program."""


class MemorySourceOptions(SourceOptions):
    """Reads rows that a Python program passes to the pipeline (`streamling.Runtime`)."""

    @property
    def supports_job_mode(self) -> bool:
        return True


class MemorySource(Source[MemorySourceOptions]):
    """Delivers the rows of its `MemoryInput`. The position is the number of rows delivered; it is not restored from the
    state, because the rows of another process no longer exist."""

    Options = MemorySourceOptions
    own_thread: ClassVar[bool] = False

    def __init__(self, context: NodeContext[MemorySourceOptions]) -> None:
        super().__init__(context)
        inputs = context.shared.acquire(MemoryInputs, lambda: MemoryInputs({}))
        self._input = inputs.by_name.get(context.name)
        self.bounded = self._input is None or self._input.is_closed

    def schema(self) -> pa.Schema:
        return self._rows.schema

    def restore(self) -> Position:
        return {self.context.state_key: self._rows.first}

    def read(self, position: Position) -> SourceBatch | Wait | End:
        number, closed = int(position[self.context.state_key]), self._rows.is_closed
        batch = self._rows.batch_from(number)
        if batch is None:
            return END if closed else Wait(_POLL_SECONDS)
        return SourceBatch(batch, {self.context.state_key: number + batch.num_rows})

    def commit(self, position: Position) -> None:
        self._rows.free(int(position[self.context.state_key]))

    @property
    def _rows(self) -> MemoryInput:
        if self._input is None:
            raise StreamlingError.user(
                "no rows were passed to this source: only a Python program can run it",
                remedy=f"streamling.Runtime().start(…, inputs={{'{self.context.name}': rows}})",
            )
        return self._input


def _table(rows: Rows, schema: pa.Schema | None) -> pa.Table:
    """Return ``rows`` as a table with the columns of ``schema``."""
    try:
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        if not isinstance(rows, pa.Table):
            return pa.Table.from_pylist(list(rows), schema=schema)
        return rows if schema is None else rows.select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError, TypeError, AttributeError) as error:
        expected = "Arrow data or one mapping per row" if schema is None else f"the columns {', '.join(schema.names)}"
        raise StreamlingError.user(f"these rows cannot be used, expected {expected}", cause=error) from error


# ── the sink ─────────────────────────────────────────────────────────────────────────────────────────────────


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
    own_thread: ClassVar[bool] = False

    def __init__(self, context: NodeContext[MemorySinkOptions]) -> None:
        super().__init__(context)
        #: what has been written so far; batches may differ in their columns
        self.batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if self.options.exclude_gs_op and OP_COLUMN in batch.schema.names:
            batch = batch.drop_columns([OP_COLUMN])
        self.batches.append(batch)
        self.context.count_delivered(batch.num_rows)

    def table(self) -> pa.Table:
        """Return all rows written so far, with all columns that any batch had."""
        batches = list(self.batches)  # the lane keeps writing
        if not batches:
            return self._empty()
        return pa.concat_tables(map(pa.table, batches), promote_options="permissive")

    def _empty(self) -> pa.Table:
        schema = self.context.input_schema
        names = [name for name in schema.names if not (self.options.exclude_gs_op and name == OP_COLUMN)]
        return schema.empty_table().select(names)
