"""Reads files with Arrow for Spark: all CSV and JSON files, and Parquet files with types that Spark does not support.

The result is tables with the columns of the source, exactly as the file has them, or an error that names the file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from streamling.connectors.file.formats.sample import FileSample
from streamling.connectors.file.schema import FORMATS, HIVE_NULL, FileSchema, evolve_schema
from streamling.connectors.file.storage import READ_ERRORS, File, Storage, decompress, unreadable_file_error
from streamling.connectors.file.values import conform
from streamling.errors import StreamlingError
from streamling.types.names import readable
from streamling.types.row_kind import OP_COLUMN

_REMEDY = "correct the file; types are those of the files sampled when the pipeline started"


@dataclass(frozen=True)
class Content:
    """The content of a CSV or JSON file, or of a split of one."""

    data: bytes
    origin: File
    #: offset of line numbers, computed only for errors
    lines_before: Callable[[], int] = lambda: 0


def load(storage: Storage, file: File) -> Content:
    """Read a whole file, decompressed. Raises `FileNotFoundError` if it no longer exists."""
    try:
        with storage.open(file.path) as stream:
            return Content(decompress(stream, file.path).read(), file)
    except FileNotFoundError:
        raise
    except READ_ERRORS as error:
        raise unreadable_file_error(file, error) from error


class TextFileReader:
    """Converts CSV or JSON contents to tables; new columns are added to the schema."""

    def __init__(self, format: str, schema: FileSchema, threads: int) -> None:
        self._format = format
        self._threads = threads
        self.schema = schema

    def read(self, contents: Sequence[Content]) -> list[pa.Table]:
        """Return one table per content, all with the columns of `schema`."""
        contents = [content for content in contents if content.data.strip()]
        results = self._read_all(contents)
        new = [content for content, (_, has_new) in zip(contents, results, strict=True) if has_new]
        if new:
            self.schema = evolve_schema(self.schema, [(one.origin, self._sample(one)) for one in new], self._format)
            results = self._read_all(contents)
        return [table for table, _ in results]

    def _read_all(self, contents: Sequence[Content]) -> list[tuple[pa.Table, bool]]:
        if len(contents) == 1 or self._threads == 1:
            return list(map(self.read_one, contents))
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(self.read_one, contents))

    def _sample(self, content: Content) -> FileSample:
        sample: FileSample = FORMATS[self._format].take_sample(io.BytesIO(content.data), "", len(content.data))
        return sample

    def read_one(self, content: Content) -> tuple[pa.Table, bool]:
        """Return the rows, and whether there are columns that the schema lacks."""
        path = content.origin.path
        if self._format == "csv":  # check the header
            FORMATS["csv"].read_header(io.BytesIO(content.data), _plain_name(path))
        try:
            table, has_new = FORMATS[self._format].read_table(content.data, self.schema.types)
        except (pa.ArrowException, ValueError) as error:
            raise self._mismatch_error(content, error) from None
        if OP_COLUMN in table.column_names and table.column(OP_COLUMN).null_count:
            raise StreamlingError.user(
                f"column '{OP_COLUMN}' has no value in a row of '{path}'", remedy="write i, u or d in every row"
            )
        return with_partitions(table, content.origin, self.schema), has_new

    def _mismatch_error(self, content: Content, error: Exception) -> StreamlingError:
        stream = io.BytesIO(content.data)
        found = FORMATS[self._format].find_schema_mismatch(stream, "", self.schema.types, content.lines_before())
        problem = found or str(error).partition("\n")[0]
        return StreamlingError.user(f"'{content.origin.path}': {problem}", remedy=_REMEDY)


def _plain_name(path: str) -> str:
    """Return the name without a compression suffix: the content is decompressed."""
    return path.removesuffix(".gz").removesuffix(".zst")


def with_partitions(table: pa.Table, file: File, schema: FileSchema) -> pa.Table:
    """Return the table with the columns from folder names."""
    for field, column in zip(schema.partitions, partition_values(file, schema, table.num_rows), strict=True):
        table = table.append_column(field, column)
    return table.cast(schema.columns) if table.schema != schema.columns else table


def partition_values(file: File, schema: FileSchema, rows: int) -> Iterator[pa.Array]:
    """Yield one column per ``key=value`` folder, with the same value in all rows."""
    for field, (_, text) in zip(schema.partitions, file.partitions, strict=True):
        value = None if text == HIVE_NULL else int(text) if pa.types.is_integer(field.type) else text
        yield pa.repeat(pa.scalar(value, field.type), rows)


def parquet_tables(stream: IO[bytes], file: File, schema: FileSchema, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file with the columns of the source, about ``rows`` at a time."""
    from pyarrow import parquet

    try:
        # as nanoseconds, Impala's timestamps would end in the year 2262
        stored = parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        # `iter_batches` cannot read dictionaries inside lists that span several row groups
        for group in range(stored.num_row_groups):
            for batch in stored.read_row_group(group, use_threads=False).to_batches(rows):
                columns = [_parquet_column(batch, field, file.path) for field in schema.data]
                yield with_partitions(pa.Table.from_arrays(columns, schema=schema.data), file, schema)
    except READ_ERRORS as error:
        raise unreadable_file_error(file, error) from error


def _parquet_column(batch: pa.RecordBatch, field: pa.Field, path: str) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        return pa.nulls(batch.num_rows, field.type)
    try:
        return conform(batch.column(index), field.type)
    except pa.ArrowException as error:
        kind = readable(batch.column(index).type)
        reason = str(error).partition("\n")[0]
        raise StreamlingError.user(
            f"'{path}', column '{field.name}' of type {kind}: {reason}", remedy="correct the file"
        ) from error
