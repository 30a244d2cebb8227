"""NAME: plugins for Streamling. Keep what you need, delete the rest."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from streamling.plugins import (
    END,
    End,
    Position,
    Sink,
    SinkOptions,
    Source,
    SourceBatch,
    SourceOptions,
    StreamlingError,
    Transform,
    TransformOptions,
    plugin,
)


class NumbersOptions(SourceOptions):
    """Fields of `NAME.numbers` in a pipeline file."""

    count: int = Field(default=100, ge=0, description="Number of rows.")
    rows_per_read: int = Field(default=10, ge=1, description="Rows per batch.")


@plugin("NAME.numbers")
class Numbers(Source[NumbersOptions]):
    """Counts from 0."""

    Options = NumbersOptions
    bounded = True  # it ends

    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64())])

    def read(self, position: Position) -> SourceBatch | End:
        """Return the rows after ``position``; the same position must always return the same rows."""
        at = int(position.get(self.context.name, 0))
        stop = min(at + self.options.rows_per_read, self.options.count)
        if at == stop:
            return END
        rows = pa.record_batch([pa.array(range(at, stop), pa.int64())], schema=self.schema())
        return SourceBatch(rows, {self.context.name: stop})


class TimesOptions(TransformOptions):
    """Fields of `NAME.times` in a pipeline file."""

    column: str = Field(description="The column to multiply.")
    factor: int = Field(default=2, description="The factor.")


@plugin("NAME.times")
class Times(Transform[TimesOptions]):
    """Adds a column with the product."""

    Options = TimesOptions

    def output_schema(self) -> pa.Schema:
        """Return the columns. Called before any rows arrive: the best place to report an error in the options."""
        schema = self.context.input_schema
        if self.options.column not in schema.names:
            raise StreamlingError.user(
                f"there is no column '{self.options.column}'", remedy=f"use one of: {', '.join(schema.names)}"
            )
        return schema.append(pa.field("product", pa.int64()))

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        product = pc.multiply(batch.column(self.options.column).cast(pa.int64()), self.options.factor)
        return pa.record_batch([*batch.columns, product], schema=self.output_schema())


class LinesOptions(SinkOptions):
    """Fields of `NAME.lines` in a pipeline file."""

    file: Path = Field(description="File to write to.")


@plugin("NAME.lines")
class Lines(Sink[LinesOptions]):
    """Appends one JSON object per row to a file."""

    Options = LinesOptions

    def open(self) -> None:
        self._file = self.options.file.open("a", encoding="utf-8")

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.writelines(f"{json.dumps(row, default=str)}\n" for row in batch.to_pylist())

    def flush(self) -> None:
        """Make everything written before survive a crash."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
