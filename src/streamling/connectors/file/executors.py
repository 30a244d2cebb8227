"""Reads files on a cluster that Spark does not read itself: the executors fetch them and Arrow reads them.

Executors have no access to the driver's staging folder, and Spark's own clients are not shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from streamling.connectors.file.arrow import Content, TextFileReader, parquet_tables, partition_values
from streamling.connectors.file.decimals import avro_contents, invalid_number_text
from streamling.connectors.file.errors import executor_error
from streamling.connectors.file.frames import output_column, quoted_column
from streamling.connectors.file.schema import FileSchema
from streamling.connectors.file.splits import split_file
from streamling.connectors.file.storage import READ_ERRORS, File, Storage, unreadable_file_error
from streamling.connectors.file.values import for_spark
from streamling.errors import StreamlingError
from streamling.spark.arrow_map import map_in_arrow
from streamling.types.spark import physical_type, physical_value, to_spark_schema
from streamling.types.wide.layout import Layout, without_point

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class ExecutorFileReader:
    """How executors read the files of a source."""

    storage: Storage
    format: str
    schema: FileSchema
    parallelism: int | None

    def frame(self, spark: SparkSession, files: Sequence[File]) -> DataFrame:
        """Return all rows of the files; in the given order if ``parallelism`` is 1."""
        tasks = min(self.parallelism or spark.sparkContext.defaultParallelism, len(files))
        # one row per task: shuffling a few paths would give some tasks several and others none
        numbers = spark.range(0, tasks, 1, tasks)
        raw = map_in_arrow(
            numbers, self._read_function(partition_files(files, tasks)), to_spark_schema(self.schema.columns)
        )
        return raw.select(*self._columns())

    def _read_function(
        self, shares: Sequence[Sequence[File]]
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    for file in shares[number]:
                        yield from self._read_file(file)

        return read

    # ── on the executor ───────────────────────────────────────────────────────────────────────────────────

    def _read_file(self, file: File) -> Iterator[pa.RecordBatch]:
        try:
            for table in self._tables(file):
                yield from for_spark(table).to_batches(_BATCH_ROWS)
        except (StreamlingError, OverflowError, UnicodeDecodeError, *READ_ERRORS) as error:
            raise executor_error(
                error if isinstance(error, StreamlingError) else unreadable_file_error(file, error)
            ) from error

    def _tables(self, file: File) -> Iterator[pa.Table]:
        if self.format in ("csv", "json"):
            yield from self._text_tables(file)
            return
        with self.storage.open(file.path) as stream:
            if self.format == "parquet":
                yield from parquet_tables(stream, file, self.schema, _BATCH_ROWS)
            else:
                yield from _avro_tables(stream, file, self.schema)

    def _text_tables(self, file: File) -> Iterator[pa.Table]:
        text_reader = TextFileReader(self.format, self.schema, threads=1)
        lines = 0
        with self.storage.open(file.path) as stream:
            for data, _ in split_file(stream, file.path, self.format, 0):
                if not data.strip():
                    continue
                table, has_new = text_reader.read_one(Content(data, file, partial(int, lines)))
                if has_new:
                    raise StreamlingError.user(f"'{file.path}' has new columns; restart the pipeline to read them")
                lines += data.count(b"\n")
                yield table

    # ── in the plan ───────────────────────────────────────────────────────────────────────────────────────

    def _columns(self) -> list[Column]:
        return [output_column(field, quoted_column(field.name)) for field in to_spark_schema(self.schema.columns)]


def partition_files(files: Sequence[File], shares: int) -> list[list[File]]:
    """Divide files into this many shares of about the same size, each in the given order."""
    sizes = [0] * shares
    owners: dict[File, int] = {}
    for file in sorted(files, key=lambda file: -file.size):
        smallest = sizes.index(min(sizes))
        owners[file] = smallest
        sizes[smallest] += file.size
    return [[file for file in files if owners[file] == share] for share in range(shares)]


def _physical(value: Any, wide: pa.DataType, path: str, column: str) -> Any:
    try:
        return physical_value(value, wide, _physical_number)
    except OverflowError as error:
        raise ValueError(invalid_number_text(path, column, error)) from None


def _physical_number(number: Decimal | bytes, layout: Layout) -> bytes:
    """Encode a number of Arrow, or the bytes that Avro writes."""
    exact = int.from_bytes(number, "big", signed=True) if isinstance(number, bytes) else without_point(number, layout)
    return layout.encode(exact)


def _avro_tables(stream: IO[bytes], file: File, schema: FileSchema) -> Iterator[pa.Table]:
    held = pa.schema([field.with_type(physical_type(field.type)) for field in schema.columns])
    for batch in _avro_batches(stream, file.path, pa.schema(list(held)[: len(schema.data)]), schema.wide):
        yield _with_constants(pa.Table.from_batches([batch]), file, schema)


def _with_constants(table: pa.Table, file: File, schema: FileSchema) -> pa.Table:
    for field, column in zip(schema.partitions, partition_values(file, schema, table.num_rows), strict=True):
        table = table.append_column(field, column)
    return table


def _avro_batches(
    stream: IO[bytes], path: str, schema: pa.Schema, wide: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    try:
        import fastavro
    except ImportError:
        raise StreamlingError.user(
            "reading Avro files from a bucket on a cluster requires fastavro", remedy="pip install fastavro"
        ) from None
    rows: list[Any] = []
    for content in avro_contents(stream, path) if wide else (stream,):
        row: Any
        for row in fastavro.reader(content):
            for name, kind in wide.items():
                row[name] = _physical(row.get(name), kind, path, name)
            rows.append(row)
            if len(rows) == _BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)
