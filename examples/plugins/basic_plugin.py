"""Three example plugins: a source of random rows, a filter, and a sink that prints tables.

STREAMLING__PLUGIN__PATH=basic_plugin.py streamling run pipeline.yaml
"""

import random
import sys
import time
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from streamling.plugins import (
    END,
    End,
    FreeFormOptions,
    NodeContext,
    Position,
    Sink,
    SinkOptions,
    Source,
    SourceBatch,
    SourceOptions,
    StreamlingError,
    Transform,
    Wait,
    plugin,
)

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class RandomSourceOptions(SourceOptions):
    """Fields of `basic_plugin.random_source`."""

    max_rows: int = Field(default=100, ge=0, description="Total number of rows.")
    record_batch_size: int = Field(default=10, ge=1, description="Rows per batch.")
    batch_sleep_ms: int = Field(default=1000, ge=0, description="Pause between batches.")
    stop_when_exhausted: bool = Field(default=False, description="End after the last row instead of waiting.")
    seed: int | None = Field(default=None, description="The same seed generates the same rows.")


@plugin("basic_plugin.random_source")
class RandomSource(Source[RandomSourceOptions]):
    """Random rows that are the same after a restart: the seed is part of the position."""

    Options = RandomSourceOptions

    def __init__(self, context: NodeContext[RandomSourceOptions]) -> None:
        super().__init__(context)
        self.bounded = self.options.stop_when_exhausted
        self._not_before = 0.0

    def schema(self) -> pa.Schema:
        return pa.schema([("num_field", pa.int32()), ("alphanumeric_field", pa.string()), ("_gs_op", pa.string())])

    def restore(self) -> Position:
        stored = super().restore()
        seed = self.options.seed if self.options.seed is not None else random.randrange(2**32)
        return stored or {self.context.name: {"rows": 0, "seed": seed}}

    def read(self, position: Position) -> SourceBatch | Wait | End:
        at, seed = position[self.context.name]["rows"], position[self.context.name]["seed"]
        count = min(self.options.record_batch_size, self.options.max_rows - at)
        if count <= 0:
            return END if self.options.stop_when_exhausted else Wait(1.0)
        early = self._not_before - time.monotonic()
        if early > 0:
            return Wait(early)
        self._not_before = time.monotonic() + self.options.batch_sleep_ms / 1000
        batch = _random_rows(random.Random(f"{seed}:{at}"), count, self.schema())
        return SourceBatch(batch, {self.context.name: {"rows": at + count, "seed": seed}})


def _random_rows(rng: random.Random, count: int, schema: pa.Schema) -> pa.RecordBatch:
    """Inserts; with three or more rows, the last two are an update and a delete of earlier rows."""
    numbers = [rng.randrange(1000) for _ in range(count)]
    names = ["".join(rng.choices(_LETTERS, k=10)) for _ in range(count)]
    operations = ["i"] * count
    if count >= 3:
        operations[-2:] = ["u", "d"]
        names[-2:] = [names[0], names[min(1, count - 3)]]
    return pa.record_batch([pa.array(numbers, pa.int32()), pa.array(names), pa.array(operations)], schema=schema)


@plugin("basic_plugin.filter_transform")
class FilterTransform(Transform[FreeFormOptions]):
    """Keeps rows whose text columns have the given values; every further field is such a condition."""

    Options = FreeFormOptions

    def output_schema(self) -> pa.Schema:
        schema = self.context.input_schema
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        for column in self._conditions:
            if column not in texts:
                raise StreamlingError.user(
                    f"there is no text column '{column}' to compare with", remedy=f"use one of: {', '.join(texts)}"
                )
        return schema

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for column, value in self._conditions.items():
            batch = batch.filter(pc.equal(batch.column(column), value))
        return batch

    @property
    def _conditions(self) -> dict[str, str]:
        return self.options.model_extra or {}


class PrintSinkOptions(SinkOptions):
    """Fields of `print_sink`."""

    mode: Literal["row", "batch"] = Field(default="row", description="batch prints a table for every batch.")


@plugin("print_sink")
class PrintSink(Sink[PrintSinkOptions]):
    """Prints single rows, or each batch as a table."""

    Options = PrintSinkOptions

    def write(self, batch: pa.RecordBatch) -> None:
        rows = [[str(value) for value in row.values()] for row in batch.to_pylist()]
        lines = _table([batch.schema.names, *rows]) if self.options.mode == "batch" else map(" ".join, rows)
        sys.stdout.write("".join(f"{line}\n" for line in lines))

    def flush(self) -> None:
        sys.stdout.flush()


def _table(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    for number, row in enumerate(rows):
        if number < 2:
            yield rule
        yield "|".join(["", *(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)), ""])
    yield rule
