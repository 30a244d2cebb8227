"""Reads files to rows: with Arrow, with Spark in place, or on the executors."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.connectors.file.arrow import Content, TextFileReader, load, parquet_tables
from streamling.connectors.file.errors import FileErrorTranslator
from streamling.connectors.file.executors import ExecutorFileReader
from streamling.connectors.file.formats.parquet import Conversion
from streamling.connectors.file.frames import SparkFileReader, converted_frame
from streamling.connectors.file.headers import FileHeader, HeaderReader, group_files
from streamling.connectors.file.schema import FileSchema, check_partitions, evolve_schema
from streamling.connectors.file.splits import SPLIT_BYTES, lines_before
from streamling.connectors.file.staging import StagedFile, StagingFolder, missing_file_error
from streamling.connectors.file.storage import File, Storage, is_hidden
from streamling.errors import StreamlingError
from streamling.plugins.sources import SparkRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A batch is held in memory, as text and as Arrow data. Compressed content grows several times when read.
BATCH_FILES = 1000
BATCH_BYTES = {"csv": 64 << 20, "json": 64 << 20, "parquet": 32 << 20, "avro": 32 << 20}
#: A batch that stays in Spark: 2 M parquet rows took 0.96 s in batches of 32 MB, 0.69 s in one.
_UNCOLLECTED_BYTES = 512 << 20
_COMPRESSED_WEIGHT = 4
#: formats that Arrow reads
_TEXT = ("csv", "json")
#: fewer bytes do not justify a second task
_TASK_BYTES = 8 << 20
_CONVERTED_ROWS = 64 << 10


def weight(file: File) -> int:
    """Return the approximate weight of a file in a batch."""
    return file.size * (_COMPRESSED_WEIGHT if file.is_compressed else 1)


class FileReader:
    """Reads the files of one source. ``staging`` is None on a cluster, whose executors have no access to it."""

    def __init__(
        self,
        storage: Storage,
        schema: FileSchema,
        format: str,
        parallelism: int | None,
        by_age: bool,
        staging: StagingFolder | None,
        log: logging.Logger,
        *,
        collected: bool = True,
    ) -> None:
        """``by_age``: files come and go, and are read in the order of their age. ``collected``: rows are collected into
        this process, so batches must be small."""
        self._storage = storage
        self._schema = schema
        self._format = format
        self._parallelism = parallelism
        self._by_age = by_age
        self._staging = staging
        self._log = log
        # Spark splits the others itself, and rows that stay in Spark need no limit
        self._can_split = collected or format in _TEXT
        is_here = collected or (format in _TEXT and staging is not None)
        self.batch_bytes = BATCH_BYTES[format] if is_here else _UNCOLLECTED_BYTES
        self._cores = parallelism or os.cpu_count() or 1
        #: files of the current batch
        self._current: Sequence[StagedFile] = ()

    def is_split(self, file: File) -> bool:
        """Return whether a file is read in splits because it is large."""
        return self._staging is not None and self._can_split and weight(file) > 2 * SPLIT_BYTES

    def read_files(self, files: Sequence[File]) -> tuple[pa.Table | SparkRead, list[File]]:
        """Return the rows of files that are not split, and the files that no longer exist."""
        filled = [file for file in files if file.size]
        for file in filled:
            check_partitions(file, self._schema)
        self._current = ()
        if not filled:
            return self._schema.columns.empty_table(), []
        if self._staging is None:
            return self._on_cluster(filled)
        self._staging.clear()
        if self._format in _TEXT:
            contents = self._pool(lambda file: _none_if_missing(lambda: load(self._storage, file)), filled)
            missing = self._missing(filled, contents)
            return self._text_rows([content for content in contents if content]), missing
        staged: Sequence[StagedFile | None] = self._in_place(filled)
        if not (self._storage.is_on_disk and all(map(_is_readable, filled))):
            staged = self._staging.stage(filled)
        return self._declared_rows(filled, staged)

    def read_splits(self, file: File, offset: int) -> tuple[pa.Table | SparkRead, int | None] | None:
        """Return the rows of the next splits of a file, and the offset after them: None at its end. None if the file no
        longer exists."""
        assert self._staging is not None
        check_partitions(file, self._schema)
        self._current = ()
        self._staging.clear()
        try:
            splits, end = self._staging.next_splits(file, offset, self.batch_bytes)
        except FileNotFoundError:
            self._missing([file], [None])
            return None
        if self._format not in _TEXT:
            staged = self._staging.stage_splits(file, splits)
            return self._declared_rows([file] * len(staged), staged)[0], end
        return self._text_rows([self._split_content(data, file, start) for data, start in splits]), end

    def missing_files(self) -> list[File]:
        """Return the files of the last batch that may have disappeared before Spark read them."""
        if not self._storage.is_on_disk or not self._by_age or self._format in _TEXT:
            return []
        current, self._current = self._current, ()
        files = [one.origin for one in current if not os.path.exists(one.origin.path)]
        for file in files:
            self._log.warning("'%s' was deleted while it was being read; if it reappears, it is read again", file.path)
        return files

    # ── CSV and JSON ────────────────────────────────────────────────────────────────────────────────────────

    def _text_rows(self, contents: Sequence[Content]) -> pa.Table | SparkRead:
        assert self._staging is not None
        tables = TextFileReader(self._format, self._schema, self._cores)
        found = [table for table in tables.read(contents) if table.num_rows]
        self._update_schema(tables.schema, [content.origin for content in contents])
        if not found:
            return self._schema.columns.empty_table()
        rows = sum(table.num_rows for table in found)
        return self._converted([self._staging.write(part) for part in self._parts(found)], rows)

    def _parts(self, tables: list[pa.Table]) -> list[list[pa.Table]]:
        """Divide the tables into as many parts as Spark should read concurrently."""
        size = sum(table.nbytes for table in tables)
        count = min(self._cores, max(size // _TASK_BYTES, 1))
        if count == 1:
            return [tables]
        table = pa.concat_tables(tables)
        rows = -(-table.num_rows // count)
        return [[table.slice(start, rows)] for start in range(0, table.num_rows, rows)]

    def _converted(self, paths: Iterable[str | None], rows: int | None = None) -> SparkRead:
        schema, found = self._schema, [path for path in paths if path]
        return SparkRead(lambda spark: converted_frame(spark, schema, found, self._parallelism), rows)

    def _split_content(self, data: bytes, file: File, offset: int) -> Content:
        def count_lines() -> int:
            with self._storage.open(file.path) as stream:
                return lines_before(stream, file.path, self._format, offset)

        return Content(data, file, count_lines)

    # ── Parquet and Avro ────────────────────────────────────────────────────────────────────────────────────

    def _declared_rows(
        self, files: Sequence[File], staged: Sequence[StagedFile | None]
    ) -> tuple[pa.Table | SparkRead, list[File]]:
        headers, missing = self._read_headers(files, staged)
        if not headers:
            return self._schema.columns.empty_table(), missing
        self._current = [header.staged for header in headers]
        schema = self._schema
        if self._staging is not None and any(header.needs(Conversion.ARROW, schema) for header in headers):
            return self._converted(self._written_by_arrow(headers)), missing
        return SparkRead(lambda spark: self._found_frame(spark, headers, schema)), missing

    def _read_headers(
        self, files: Sequence[File], staged: Sequence[StagedFile | None]
    ) -> tuple[list[FileHeader], list[File]]:
        """Return the headers of the files, checked against the schema, which gains new columns."""
        header_reader = HeaderReader(self._storage, self._format, frozenset(self._schema.types))
        headers = self._pool(
            lambda one: None if one is None else _none_if_missing(lambda: header_reader.read(one)), staged
        )
        missing = self._missing(files, headers)
        found = [header for header in headers if header]
        samples = [(header.staged.origin, header.sample) for header in found]
        self._update_schema(
            evolve_schema(self._schema, samples, self._format), [header.staged.origin for header in found]
        )
        for header in found if self._format not in _TEXT else ():
            header.check(self._schema)
        return found, missing

    def _written_by_arrow(self, headers: Sequence[FileHeader]) -> list[str | None]:
        assert self._staging is not None
        if self._parallelism == 1:
            return [self._staging.write(table for header in headers for table in self._tables(header))]
        return [self._staging.write(self._tables(header)) for header in headers]

    def _tables(self, header: FileHeader) -> Iterable[pa.Table]:
        with open(header.staged.path, "rb") as stream:
            yield from parquet_tables(stream, header.staged.origin, self._schema, _CONVERTED_ROWS)

    def _found_frame(self, spark: SparkSession, headers: Sequence[FileHeader], schema: FileSchema) -> DataFrame:
        is_staged = headers[0].staged.path != headers[0].staged.origin.path
        root = self._staging.root if is_staged and self._staging else self._storage.root
        reader = SparkFileReader(
            self._format, schema, root, self._parallelism, self._by_age, ignore_missing=self._by_age
        )
        try:
            return reader.frame(spark, group_files(headers, schema, self._format))
        except Exception as error:
            left = [header for header in headers if os.path.exists(header.staged.origin.path)]
            if not self._by_age or "PATH_NOT_FOUND" not in str(error) or len(left) == len(headers):
                raise
            if left:
                return self._found_frame(spark, left, schema)
            from streamling.types.spark import to_spark_schema

            return spark.createDataFrame([], to_spark_schema(schema.columns))

    # ── a cluster ───────────────────────────────────────────────────────────────────────────────────────────

    def _on_cluster(self, files: Sequence[File]) -> tuple[pa.Table | SparkRead, list[File]]:
        """Read files on executors. They have access to the files, but not to this process's folder. They read them with
        Arrow if Spark cannot."""
        in_place = self._in_place(files)
        headers, missing = ([], []) if self._format == "json" else self._read_headers(files, in_place)
        self._current = in_place
        schema = self._schema
        by_spark = self._format not in _TEXT and self._storage.is_on_disk and all(map(_is_readable, files))
        if by_spark and not any(header.needs(Conversion.ARROW, schema) for header in headers):
            return SparkRead(lambda spark: self._found_frame(spark, headers, schema)), missing
        existing = [file for file in files if file not in missing]
        reader = ExecutorFileReader(self._storage, self._format, schema, self._parallelism)
        return SparkRead(lambda spark: reader.frame(spark, existing)), missing

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _in_place(self, files: Sequence[File]) -> list[StagedFile]:
        return [StagedFile(file.path, file) for file in files]

    def _update_schema(self, schema: FileSchema, files: Sequence[File]) -> None:
        """Use ``schema`` from now on; log new columns."""
        if schema is self._schema:
            return
        known = self._schema.types
        new = [name for name, kind in schema.types.items() if known.get(name) != kind]
        self._schema = schema
        if new:
            names = ", ".join(f"'{name}'" for name in new)
            where = f"'{files[0].path}'" + (f" or one of the {len(files) - 1} files read with it" if files[1:] else "")
            self._log.warning("new columns in %s: %s; rows have them from now on", where, names)

    def _missing(self, files: Sequence[File], found: Sequence[object | None]) -> list[File]:
        """Return the files that no longer exist: skipped in continuous mode, an error in bounded mode."""
        missing = [file for file, one in zip(files, found, strict=True) if one is None]
        for file in missing:
            if not self._by_age:
                raise missing_file_error(file)
            self._log.warning("'%s' was deleted or renamed before it was read; skipping it", file.path)
        return missing

    def _pool(self, call: Callable[..., object], items: Sequence[object]) -> list:  # type: ignore[type-arg]
        """Call ``call`` for all items, concurrently if each waits for a bucket."""
        if len(items) == 1 or self._storage.is_on_disk:
            return list(map(call, items))
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(call, items))

    def translate_error(self, error: Exception) -> StreamlingError | None:
        """Translate Spark's error, with file, line and column; None if it is not about the files."""
        return FileErrorTranslator(self._storage, self._format, self._schema, self._current).translate_error(str(error))

    def close(self) -> None:
        if self._staging is not None:
            self._staging.close()


def _none_if_missing(read: Callable[[], object]) -> object | None:
    try:
        return read()
    except FileNotFoundError:
        return None


def _is_readable(file: File) -> bool:
    """Return whether Spark can read a local file: Hadoop treats a colon as a scheme and skips hidden files."""
    name = os.path.basename(file.path)
    return ":" not in name and not is_hidden(name)
