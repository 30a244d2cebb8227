"""Files in a bucket on a cluster: the executors fetch them, Arrow parses them, Spark casts what is text.

The driver's staging folder is out of their reach, and Spark's own clients are not shipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.sources import _file_csv, _file_json
from streamling.sources._file_frames import output_column
from streamling.sources._file_pieces import cut
from streamling.sources._file_schema import FileSchema
from streamling.sources._file_storage import File, Storage, decompressed
from streamling.sources._file_wide import avro_contents, told_misfit
from streamling.spark.arrow_map import map_in_arrow
from streamling.spark.sql_text import quoted
from streamling.types.spark import carrier, held_value, to_spark_schema
from streamling.types.wide import Layout, without_point

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LINE = "line"
_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class ExecutorReading:
    """How executors read the files of a source."""

    storage: Storage
    format: str
    schema: FileSchema
    parallelism: int | None

    def frame(self, spark: SparkSession, files: Sequence[File]) -> DataFrame:
        """All rows of the files; in the order given when ``parallelism`` is 1."""
        entries = [(file.path, json.dumps([value for _, value in file.partitions])) for file in files]
        paths = spark.createDataFrame(entries, "path string, partitions string")
        tasks = min(self.parallelism or spark.sparkContext.defaultParallelism, len(files))
        paths = paths.coalesce(1) if tasks == 1 else paths.repartition(tasks)
        raw = map_in_arrow(paths, self._reading(), to_spark_schema(self._raw_schema))
        return raw.select(*self._columns())

    def _reading(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def read(paths: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in paths:
                for row in batch.to_pylist():
                    yield from self._read_file(row["path"], json.loads(row["partitions"]))

        return read

    # ── on the executor ───────────────────────────────────────────────────────────────────────────────────

    def _read_file(self, path: str, partitions: list[str]) -> Iterator[pa.RecordBatch]:
        types = self._raw_schema
        with self.storage.open(path) as stream:
            for batch in self._parsed(stream, path):
                columns = [self._column(batch, field, path) for field in types][: len(types) - len(partitions)]
                constants = [pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for value in partitions]
                yield pa.RecordBatch.from_arrays([*columns, *constants], schema=types)

    def _parsed(self, stream: IO[bytes], path: str) -> Iterator[pa.RecordBatch]:
        if self.format == "csv":
            for content, _ in cut(stream, path, self.format, 0):
                yield from _file_csv.read_texts(content).to_batches()
        elif self.format == "json":
            yield from _line_batches(decompressed(stream, path))
        elif self.format == "parquet":
            from pyarrow import parquet

            yield from parquet.ParquetFile(stream).iter_batches(_BATCH_ROWS)
        else:
            yield from _avro_batches(stream, path, self._raw_schema, self.schema.wide)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, path: str) -> pa.Array:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            return pa.nulls(batch.num_rows, field.type)
        column, wide = batch.column(index), self.schema.wide.get(field.name)
        if wide is None or column.type == field.type:
            return column.cast(field.type, safe=False)
        return pa.array([_held(value, wide, path, field.name) for value in column.to_pylist()], field.type)

    # ── in the plan ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def _raw_schema(self) -> pa.Schema:
        """What the executors hand to Spark: parsed columns, or text where Spark parses better."""
        partitions = [pa.field(name, pa.string()) for name in self.schema.partitions.names]
        if self.format == "json":
            return pa.schema([pa.field(_LINE, pa.string()), *partitions])
        types = {
            name: pa.string() if self.format == "csv" else carrier(kind) for name, kind in self.schema.types.items()
        }
        return pa.schema([*(pa.field(name, kind) for name, kind in types.items()), *partitions])

    def _columns(self) -> list[Column]:
        return [
            output_column(field, self._read_column(field.name), as_text=self._is_cast(field.name))
            for field in to_spark_schema(self.schema.columns)
        ]

    def _read_column(self, name: str) -> Column:
        from pyspark.sql import functions as f

        if self.format != "json" or name not in self.schema.types:
            return f.col(quoted(name))
        # Spark evaluates the repeated call once and leaves out what no query asks for.
        return f.from_json(f.col(_LINE), to_spark_schema(self.schema.data), _file_json.SPARK_OPTIONS).getField(name)

    def _is_cast(self, name: str) -> bool:
        """Whether the executors hand over text that stands for something else."""
        if name in self.schema.partitions.names:
            return bool(self.schema.partitions.field(name).type != pa.string())
        return self.format == "csv" and bool(self.schema.types[name] != pa.string())


def _held(value: Any, wide: pa.DataType, path: str, column: str) -> Any:
    try:
        return held_value(value, wide, _held_number)
    except OverflowError as error:
        raise ValueError(told_misfit(path, column, error)) from None


def _held_number(number: Decimal | bytes, layout: Layout) -> bytes:
    """Of a number of Arrow's or of the bytes that Avro writes."""
    exact = int.from_bytes(number, "big", signed=True) if isinstance(number, bytes) else without_point(number, layout)
    return layout.encode(exact)


def _line_batches(stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
    lines: list[str] = []
    for _, line in _file_json.rows(stream, None):
        lines.append(line.decode("utf-8", "replace"))
        if len(lines) == _BATCH_ROWS:
            yield pa.record_batch({_LINE: lines})
            lines = []
    if lines:
        yield pa.record_batch({_LINE: lines})


def _avro_batches(
    stream: IO[bytes], path: str, schema: pa.Schema, wide: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    try:
        import fastavro
    except ImportError:
        raise StreamlingError.user(
            "reading Avro files from a bucket on a cluster needs fastavro", remedy="pip install fastavro"
        ) from None
    rows: list[Any] = []
    for content in avro_contents(stream, path) if wide else (stream,):
        row: Any
        for row in fastavro.reader(content):
            for name, kind in wide.items():
                row[name] = _held(row.get(name), kind, path, name)
            rows.append(row)
            if len(rows) == _BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)
