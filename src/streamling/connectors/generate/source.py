"""Generate source: rows that are made up, at a rate or as fast as possible."""

from __future__ import annotations

import time
from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field, model_validator

from streamling.connectors.generate.changes import Changes
from streamling.connectors.generate.draws import Draws, row_numbers
from streamling.connectors.generate.generators import Column
from streamling.pipeline.document.scalars import BadValueError
from streamling.pipeline.options import SourceOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.sources import END, End, Position, Progress, Source, SourceBatch, Wait
from streamling.types.row_kind import OP_COLUMN

#: rows of the first batch, which shows how large they are
_FIRST_ROWS = 10_000
#: bytes per batch at most: smaller batches are slower if Spark jobs take them, larger ones need more memory
_BATCH_BYTES = 16 << 20


class GenerateSourceOptions(SourceOptions):
    """Generates rows from a description of their columns. Needs no service."""

    columns: dict[str, Column] = Field(
        min_length=1, description="What each column contains: the name of a generator, or its fields."
    )
    rows_per_second: float | None = Field(
        default=None, gt=0, description="Rows per second, evenly spread; by default as fast as possible."
    )
    count: int | None = Field(default=None, ge=1, description="End after this many rows; by default never.")
    seed: int = Field(default=0, description="Another seed gives other random values; the same one gives the same.")
    changes: Changes | None = Field(default=None, description="Updates and deletes; by default every row is an insert.")

    @property
    def supports_job_mode(self) -> bool:
        return self.count is not None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if OP_COLUMN in self.columns:
            raise BadValueError(f"has a column '{OP_COLUMN}'", "use 'changes' for updates and deletes", field="columns")
        folded = [name.casefold() for name in self.columns]
        twice = next((name for number, name in enumerate(self.columns) if folded[number] in folded[:number]), None)
        if twice is not None:
            reason = "names that differ only in case are the same"
            raise BadValueError(f"has the column '{twice}' twice: {reason}", "rename one", field="columns")
        for name in self.primary_key:
            if name in self.columns and self.columns[name].nulls:
                raise BadValueError(f"gives the key column '{name}' nulls", "remove its 'nulls'", field="columns")
        if self.changes is not None:
            self._check_changes(self.changes)
        return self

    def _check_changes(self, changes: Changes) -> None:
        if not self.primary_key:
            raise BadValueError(
                "needs a primary key, which says which row changes", "add 'primary_key'", field="changes"
            )
        for name in changes.columns:
            if name not in self.columns or name in self.primary_key:
                reason = "is part of the key" if name in self.primary_key else "is not among 'columns'"
                raise BadValueError(f"names the column '{name}', which {reason}", "remove it", field="changes")

    def changing_columns(self) -> frozenset[str]:
        """Return the columns that an update changes."""
        named = self.changes.columns if self.changes is not None else ()
        return frozenset(named or set(self.columns) - set(self.primary_key))


class GenerateSource(Source[GenerateSourceOptions]):
    """Row N depends on the seed and on N alone, so the position is the number of the next row, and a row that is
    generated again after a crash is the same."""

    Options = GenerateSourceOptions
    own_thread: ClassVar[bool] = False

    def __init__(self, context: NodeContext[GenerateSourceOptions]) -> None:
        super().__init__(context)
        options = self.options
        self.bounded = options.count is not None
        self._pace = None if options.rows_per_second is None else Pace(options.rows_per_second)
        self._next = 0
        self._batch_rows = _FIRST_ROWS

    def schema(self) -> pa.Schema:
        fields = [pa.field(name, each.arrow_type, bool(each.nulls)) for name, each in self.options.columns.items()]
        operation = [] if self.options.changes is None else [pa.field(OP_COLUMN, pa.string(), nullable=False)]
        return pa.schema([*fields, *operation])

    def read(self, position: Position) -> SourceBatch | Wait | End:
        first = int(position.get(self.context.state_key, 0))
        most = self._batch_rows if self.options.count is None else min(self._batch_rows, self.options.count - first)
        if most <= 0:
            return END
        rows = most if self._pace is None else self._pace.take(time.monotonic(), most)
        if rows == 0:
            assert self._pace is not None
            return Wait(self._pace.wait(time.monotonic()))
        batch = self._rows(first, rows)
        self._next = first + rows
        self._batch_rows = max(_BATCH_BYTES * rows // batch.nbytes, 1)
        return SourceBatch(batch, {self.context.state_key: self._next})

    def caught_up(self) -> bool:
        """Return whether the source has no end. Without one there is no backlog: rows do not exist before they are
        generated. Those with an end are a data set."""
        return self.options.count is None

    def progress(self) -> Progress | None:
        return None if self.options.count is None else Progress(self._next, self.options.count)

    def _rows(self, first: int, count: int) -> pa.RecordBatch:
        numbers, now = row_numbers(first, count), time.time_ns() // 1000
        keys, kinds, changing = numbers, [], self.options.changing_columns()
        if self.options.changes is not None:
            log = self.options.changes.log(Draws(self.options.seed, OP_COLUMN, numbers, now))
            keys, kinds = log.keys, [log.kinds]
        columns = [
            each.column(Draws(self.options.seed, name, numbers if name in changing else keys, now))
            for name, each in self.options.columns.items()
        ]
        return pa.RecordBatch.from_arrays([*columns, *kinds], schema=self.schema())


#: seconds between two batches: slower rates deliver each row at its own time, faster ones some rows at a time
_TICK = 0.02
#: rows that could not be delivered in time are made up for if they are late by at most these seconds
_CATCH_UP = 1.0


class Pace:
    """Spreads rows evenly over time. Times are seconds of a monotonic clock."""

    def __init__(self, rows_per_second: float) -> None:
        self._rate = rows_per_second
        #: when the next row is due; None before the first one
        self._next_row: float | None = None
        self._next_batch = 0.0

    def take(self, now: float, most: int) -> int:
        """Return how many rows to deliver now, at most ``most``; 0 if it is too early."""
        if self._next_row is None:
            self._next_row = self._next_batch = now
        if now < self._next_batch:
            return 0
        self._next_row = max(self._next_row, now - _CATCH_UP)
        rows = min(int((now - self._next_row) * self._rate) + 1, most)
        self._next_row += rows / self._rate
        self._next_batch = max(self._next_row, now + _TICK) if rows < most else now
        return rows

    def wait(self, now: float) -> float:
        """Return the seconds until the next batch."""
        return max(self._next_batch - now, 0.0)
