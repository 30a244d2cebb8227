"""Files turned into rows: by Spark where they are, from a staging folder, or on the executors."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.plugins.operators import SparkRead
from streamling.sources import _file_avro, _file_csv, _file_parquet
from streamling.sources._file_executors import ExecutorReading
from streamling.sources._file_frames import NO_OPERATION, Group, Reading
from streamling.sources._file_pieces import PIECE_BYTES, lines_before
from streamling.sources._file_schema import FORMATS, FileSchema, check_partitions
from streamling.sources._file_staging import Staged, Staging, gone
from streamling.sources._file_storage import File, Storage, is_hidden
from streamling.sources._file_wide import avro_with_bytes, find_misfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A batch is collected in memory. Compressed content grows several times when read.
BATCH_FILES = 1000
BATCH_BYTES = {"csv": 128 << 20, "json": 128 << 20, "parquet": 32 << 20, "avro": 32 << 20}
#: A batch that Spark keeps to itself: 2 M parquet rows took 0.96 s in batches of 32 MB, 0.69 s in one.
_UNCOLLECTED_BYTES = 512 << 20
_COMPRESSED_WEIGHT = 4
#: what Spark says when the trouble is in a file
_READ_FAILURES = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "MALFORMED_", "CANNOT_MERGE_SCHEMAS")
_CAST_FAILURES = ("CAST_INVALID_INPUT", "ArrowInvalid", "FileNotFoundError")


def weight(file: File) -> int:
    """About how much a file counts in a batch."""
    return file.size * (_COMPRESSED_WEIGHT if file.is_compressed else 1)


class FileReader:
    """Reads the files of one source. ``staging`` is None on a cluster, whose executors could not see it."""

    def __init__(
        self,
        storage: Storage,
        schema: FileSchema,
        format: str,
        parallelism: int | None,
        by_age: bool,
        staging: Staging | None,
        log: logging.Logger,
        *,
        collected: bool = True,
    ) -> None:
        """``collected``: rows come into this process, so batches have to be small."""
        self._storage = storage
        self._schema = schema
        self._format = format
        self._parallelism = parallelism
        self._by_age = by_age
        self._staging = staging
        self._log = log
        # Spark divides these by itself, and where it keeps the rows nothing else has to
        self._cuts = collected or format not in ("parquet", "avro")
        self.batch_bytes = BATCH_BYTES[format] if collected else _UNCOLLECTED_BYTES
        self._ignored: set[str] = set()
        #: files of the batch under way
        self._current: Sequence[Staged] = ()

    def is_cut(self, file: File) -> bool:
        """Whether a file is read in pieces: when it is large, or in a compression that Spark has not."""
        if self._staging is None or not self._cuts:
            return False
        return weight(file) > 2 * PIECE_BYTES or _is_zstd(file)

    def whole(self, files: Sequence[File]) -> pa.Table | SparkRead:
        """Rows of files that are not cut."""
        files = [file for file in files if file.size]
        for file in files:
            check_partitions(file, self._schema)
        if not files:
            return self._schema.columns.empty_table()
        return SparkRead(lambda spark: self._whole_frame(spark, files))

    def pieces(self, file: File, offset: int) -> tuple[SparkRead, int | None]:
        """Rows of the next pieces of a file that is cut, and the offset behind them: None at its end."""
        assert self._staging is not None
        self._staging.clear()
        staged, end = self._staging.stage_pieces(file, offset, self.batch_bytes)
        return SparkRead(lambda spark: self._frame(spark, staged)), end

    def _whole_frame(self, spark: SparkSession, files: Sequence[File]) -> DataFrame:
        if self._storage.is_local:
            for file in files:
                if not os.path.exists(file.path):
                    raise gone(file)
        in_place = [Staged(file.path, file) for file in files]
        if self._staging is None and not (self._storage.is_local and all(map(_is_readable, files))):
            self._current = in_place
            self._check_wide()
            return ExecutorReading(self._storage, self._format, self._schema, self._parallelism).frame(spark, files)
        if self._staging is None or (self._storage.is_local and all(map(_is_readable, files))):
            return self._frame(spark, in_place)
        self._staging.clear()
        return self._frame(spark, self._staging.stage(files))

    def _frame(self, spark: SparkSession, staged: Sequence[Staged]) -> DataFrame:
        self._current = staged
        self._check_wide()
        is_staged = staged[0].path != staged[0].origin.path
        root = self._staging.root if is_staged and self._staging else self._storage.root
        reading = Reading(self._format, self._schema, root, self._parallelism, self._by_age)
        return reading.frame(spark, self._groups(staged))

    def _check_wide(self) -> None:
        """Look into every file when a column is read as bytes: whatever they stand for, Spark would take them."""
        for one in self._current if self._schema.wide else ():
            if misfit := self._misfit(one, self._schema.wide):
                raise misfit

    def _groups(self, staged: Sequence[Staged]) -> list[Group]:
        if self._format == "avro" and self._schema.wide:
            return self._avro_groups(staged)
        if self._schema.untyped:
            return self._typed_groups(staged)
        if self._format != "csv":
            return [Group([one.path for one in staged], self._schema.data.names)]
        # Spark takes CSV columns by position: files are read together only when their headers agree.
        by_header: dict[tuple[str, ...], list[str]] = {}
        for one in staged:
            with open(one.path, "rb") as stream:
                header = tuple(_file_csv.read_header(stream, one.path))
            if header:
                by_header.setdefault(header, []).append(one.path)
                self._warn_of_new(header, one)
        return [Group(paths, header) for header, paths in by_header.items()]

    def _avro_groups(self, staged: Sequence[Staged]) -> list[Group]:
        """Spark is told how to read wide decimals by a schema, which has to be that of the files."""
        by_schema: dict[str, tuple[list[str], list[str]]] = {}
        for one in staged:
            with open(one.path, "rb") as stream:
                schema = _file_avro.read_header(stream, one.path).schema
            names = [field["name"] for field in schema["fields"] if field["name"] in self._schema.types]
            by_schema.setdefault(avro_with_bytes(schema), (names, []))[1].append(one.path)
        return [Group(paths, names, {"avroSchema": schema}) for schema, (names, paths) in by_schema.items()]

    def _typed_groups(self, staged: Sequence[Staged]) -> list[Group]:
        """Parquet files by the columns that have a type in them: the others are null, and not read."""
        by_columns: dict[tuple[str, ...], list[str]] = {}
        for one in staged:
            with open(one.path, "rb") as stream:
                sample = _file_parquet.take_sample(stream, one.path, 0)
            columns = tuple(name for name in self._schema.data.names if name not in sample.untyped)
            by_columns.setdefault(columns, []).append(one.path)
        return [Group(paths, columns) for columns, paths in by_columns.items()]

    def _warn_of_new(self, header: Sequence[str], one: Staged) -> None:
        new = set(header) - set(self._schema.data.names) - self._ignored
        if new:
            self._ignored |= new
            self._log.warning(
                "'%s' has new columns (%s), which are left out until the pipeline is started again",
                one.origin.path,
                ", ".join(sorted(new)),
            )

    # ── errors ───────────────────────────────────────────────────────────────────────────────────────────────

    def explain(self, error: Exception) -> StreamlingError | None:
        """Spark's failure with file, line and column; None when it is not about the files."""
        message = str(error)
        if NO_OPERATION in message:
            return StreamlingError.user(NO_OPERATION, remedy="write i, u or d in every row")
        if self._schema.wide and (misfit := find_misfit(message)):
            path = self._suspects(message)[0].origin.path
            return StreamlingError.user(f"'{path}': {misfit}", remedy="correct the file, or declare more digits in it")
        in_file = any(word in message for word in _READ_FAILURES)
        # A failing cast may be one of ours or one of the user's: only the files can tell.
        casts = self._schema.loose or self._staging is None
        if not in_file and not (casts and any(word in message for word in _CAST_FAILURES)):
            return None
        suspects = self._suspects(message)
        for one in suspects:
            if explained := self._misfit(one, self._schema.types):
                return explained
        return self._unexplained(suspects, message) if in_file else None

    def _suspects(self, message: str) -> list[Staged]:
        """Spark names the file; where it does not, it is one of the batch."""
        return sorted(self._current, key=lambda one: os.path.basename(one.path) not in message)

    def _misfit(self, one: Staged, types: Mapping[str, pa.DataType]) -> StreamlingError | None:
        try:
            with self._open(one) as stream:
                find_misfit = FORMATS[self._format].find_misfit
                problem = find_misfit(stream, one.path, types, self._lines_before(one))
        except FileNotFoundError:
            return gone(one.origin)
        except StreamlingError as unreadable:
            return unreadable
        if problem is None:
            return None
        return StreamlingError.user(
            f"'{one.origin.path}': {problem}",
            remedy="correct the file; types are those of the files looked at when the pipeline started",
        )

    def _open(self, one: Staged) -> IO[bytes]:
        return self._storage.open(one.path) if one.path == one.origin.path else open(one.path, "rb")

    def _lines_before(self, one: Staged) -> int:
        if not one.offset or self._format not in ("csv", "json"):
            return 0
        with self._storage.open(one.origin.path) as stream:
            return lines_before(stream, one.origin.path, self._format, one.offset)

    def _unexplained(self, suspects: Sequence[Staged], message: str) -> StreamlingError:
        reasons = [line for line in message.splitlines() if line.startswith("Caused by: ")]
        reason = reasons[-1].removeprefix("Caused by: ") if reasons else message.partition("\n")[0]
        path = suspects[0].origin.path if suspects else ""
        return StreamlingError.user(f"'{path}' cannot be read: {reason}", remedy="check or replace the file")

    def close(self) -> None:
        if self._staging is not None:
            self._staging.close()


def _is_readable(file: File) -> bool:
    """Whether Spark can read a local file: Hadoop takes a colon for a scheme, leaves hidden files out, and has no
    zstd of its own."""
    name = os.path.basename(file.path)
    return ":" not in name and not is_hidden(name) and not _is_zstd(file)


def _is_zstd(file: File) -> bool:
    return file.path.lower().endswith(".zst")
