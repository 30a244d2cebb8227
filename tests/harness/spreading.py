"""A plugin file whose operators may run on executors: who did what is part of the rows and of the file names."""

import json
import os
import uuid
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from streamling.plugins import END as THE_END
from streamling.plugins import (
    SideOutput,
    Sink,
    SinkOptions,
    Source,
    SourceBatch,
    SourceOptions,
    SqlFunction,
    Transform,
    TransformOptions,
    plugin,
)


class CountOptions(SourceOptions):
    rows: int = 100


@plugin("spreading.count")
class CountSource(Source[CountOptions]):
    Options = CountOptions
    bounded = True

    def schema(self):
        return pa.schema([("id", pa.int64())])

    def read(self, position):
        at = position.get(self.context.name, 0)
        if at >= self.options.rows:
            return THE_END
        ids = range(at, min(at + 25, self.options.rows))
        return SourceBatch(pa.record_batch({"id": pa.array(ids, pa.int64())}), {self.context.name: ids[-1] + 1})


class SquareOptions(TransformOptions):
    refuse: int | None = None


@plugin("spreading.square")
class SquareTransform(Transform[SquareOptions]):
    Options = SquareOptions

    def output_schema(self):
        return self.context.input_schema.append(pa.field("square", pa.int64())).append(pa.field("pid", pa.int64()))

    def process(self, batch):
        ids = batch.column("id").to_pylist()
        if self.options.refuse in ids:
            raise ValueError(f"row {self.options.refuse} refused")
        squares = pa.array([square(id) for id in ids], pa.int64())
        self.context.metrics.count("squared", len(ids), {"kind": "whole"})
        self.context.metrics.gauge("last", ids[-1])
        self.context.metrics.latency("thinking", 0.5)
        pids = pa.array([os.getpid()] * len(ids), pa.int64())
        return pa.record_batch([*batch.columns, squares, pids], schema=self.output_schema())


def square(id):
    """What a plugin file defines besides its classes travels with them."""
    return id * id


class FolderOptions(SinkOptions):
    folder: str
    refuse: int | None = None


@plugin("spreading.folder")
class FolderSink(Sink[FolderOptions]):
    Options = FolderOptions
    distributable = True

    def open(self):
        self._rows = []

    def write(self, batch):
        self._rows += batch.to_pylist()

    def flush(self):
        if any(row["id"] == self.options.refuse for row in self._rows):
            raise OSError(f"no room for {self.options.refuse}")
        if self._rows:
            file = Path(self.options.folder) / f"{os.getpid()}-{uuid.uuid4()}.jsonl"
            file.write_text("".join(json.dumps(row) + "\n" for row in self._rows))
        self._rows = []


@plugin("spreading_cube")
class CubeFunction(SqlFunction):
    """The third power."""

    argument_types: ClassVar = (pa.int64(),)
    return_type = pa.int64()

    def call(self, numbers):
        return pa.array([square(number.as_py()) * number.as_py() for number in numbers], pa.int64())


class SeenOptions(TransformOptions):
    file: str


@plugin("spreading.seen")
class SeenSideOutput(SideOutput[SeenOptions]):
    """Notes which rows have passed."""

    Options = SeenOptions

    def open(self):
        self._ids = set()

    def before_emit(self, rows, after):
        self._ids |= set(rows.column("id").to_pylist())

    def finalized(self, epoch):
        Path(self.options.file).write_text(json.dumps(sorted(self._ids)))
