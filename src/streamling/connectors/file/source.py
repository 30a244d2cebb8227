"""File source: reads csv, json, parquet and avro files, once or as they arrive."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import BeforeValidator, Field

from streamling.connectors.file.buckets import BucketStorage
from streamling.connectors.file.own_files import OwnFiles
from streamling.connectors.file.progress import ProcessedFiles, ProcessedRanges, Tracker
from streamling.connectors.file.reader import BATCH_FILES, FileReader, weight
from streamling.connectors.file.schema import FileSchema, infer
from streamling.connectors.file.staging import StagingFolder
from streamling.connectors.file.storage import READ_ERRORS, File, LocalStorage, Storage, unreadable_file_error
from streamling.errors import StreamlingError
from streamling.pipeline.document.scalars import Duration, redact_url
from streamling.pipeline.options import Options, ParallelOptions, SourceOptions
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.sources import END, End, Position, Progress, Source, SourceBatch, Wait
from streamling.spark.master import is_local
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.plugins.context import NodeContext

_BUCKETS = ("s3", "s3a", "gs")


class Bounded(Options):
    """Read the existing files, then end."""

    type: Literal["bounded"]


class Continuous(Options):
    """Keep polling for new and changed files."""

    type: Literal["continuous"] = "continuous"
    poll_interval: Duration = Field(
        default="5s", validate_default=True, gt=0, description="Interval between two listings, such as 5s."
    )


def _format_name(value: object) -> object:
    return "json" if value in ("ndjson", "jsonl") else value


class FileSourceOptions(ParallelOptions, SourceOptions):
    """Reads csv, json, parquet or avro files, once or as they arrive."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"path"})

    path: str = Field(min_length=1, description="Folder, file or pattern; local, s3://, s3a:// or gs://.")
    format: Annotated[Literal["csv", "json", "parquet", "avro"], BeforeValidator(_format_name)] = Field(
        description="csv (with header), json (one object per line; also ndjson, jsonl), parquet or avro."
    )
    mode: Bounded | Continuous = Field(
        default_factory=Continuous,
        discriminator="type",
        description="bounded reads the existing files and ends; continuous also reads files that arrive later.",
    )

    @property
    def supports_job_mode(self) -> bool:
        return isinstance(self.mode, Bounded)


class FileSource(Source[FileSourceOptions]):
    """Reads files of one format under a path, in batches."""

    Options = FileSourceOptions
    own_thread: ClassVar[bool] = False

    def __init__(self, context: NodeContext[FileSourceOptions]) -> None:
        super().__init__(context)
        self.bounded = isinstance(self.options.mode, Bounded)
        self._storage = _storage(context)
        self._tracker: Tracker = ProcessedRanges(context.name, {})
        self._queue: deque[File] = deque()
        self._total = 0
        self._listings = 0
        #: the position of `_tracker` and `_queue`
        self._at: Position | None = None

    def labels(self) -> dict[str, str]:
        return {"path": self.options.path}

    @classmethod
    def spark_packages(cls, options: FileSourceOptions) -> frozenset[str]:
        return frozenset({"avro"}) if options.format == "avro" else frozenset()

    @classmethod
    def connections(
        cls, context: NodeContext[FileSourceOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        return (ConnectionCheck("files", redact_url(context.options.path), partial(_check_files, context)),)

    def schema(self) -> pa.Schema:
        return self._schema.columns

    def translate_error(self, error: Exception) -> StreamlingError | None:
        return self._reader.translate_error(error)

    def close(self) -> None:
        if "_reader" in vars(self):  # otherwise nothing has been read
            self._reader.close()

    @cached_property
    def _schema(self) -> FileSchema:
        return infer(self._storage, _non_empty_files(self._storage), self.options.format)

    @cached_property
    def _reader(self) -> FileReader:
        local = is_local(self.context.config.spark.master)
        staging = StagingFolder(self._storage, self.options.format) if local else None
        # Changes have an order: the last operation on a key wins. Plain rows can be read in any order.
        in_order = not self.bounded or OP_COLUMN in self._schema.columns.names
        parallelism = self.options.parallelism or (1 if in_order else None)
        return FileReader(
            self._storage,
            self._schema,
            self.options.format,
            parallelism,
            by_age=not self.bounded,
            staging=staging,
            log=self.context.log,
            collected=self.context.collected,
        )

    # ── position ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _partial_key(self) -> str:
        """State key of the file that has been read only in part."""
        return f"{self.context.name}:partial"

    def restore(self) -> Position:
        name = self.context.name
        mine = (f"{name}:bounded_progress",) if self.bounded else (f"{name}:watermark", f"{name}:seen:")
        stored = self.context.state.get_prefix(f"{name}:")
        position = {key: value for key, value in stored.items() if key.startswith((*mine, self._partial_key))}
        return position if self.bounded else ProcessedFiles(name, position).import_watermark(self._storage.list_files())

    def state_keys(self) -> tuple[str, ...]:
        name = self.context.name
        files = (f"{name}:bounded_progress",) if self.bounded else (f"{name}:watermark", f"{name}:seen:*")
        return (*files, self._partial_key)

    def _seek(self, position: Position) -> None:
        """Find the files to read after ``position``, unless the last call ended there."""
        if self._at is not position:
            self._tracker = (ProcessedRanges if self.bounded else ProcessedFiles)(self.context.name, position)
            self._queue.clear()
            self._at = position
            self._list()
        elif not self._queue and not self.bounded:
            self._list()

    def _list(self) -> None:
        listing = self._storage.list_files()
        self._queue.extend(self._tracker.pending(listing))
        self._total = len(listing)
        self._listings += 1

    # ── batches ───────────────────────────────────────────────────────────────────────────────────────────

    def read(self, position: Position) -> SourceBatch | Wait | End:
        try:
            self._seek(position)
        except StreamlingError as error:
            if self.bounded or not error.retriable:
                raise
            self.context.log.warning("%s; retrying", error)
        if missing_files := self._reader.missing_files() if self._at is position else ():
            self._at = self._tracker.forget(missing_files)
            return SourceBatch(self._schema.columns.empty_table(), self._at)
        if not self._queue:
            return Wait(self.options.mode.poll_interval) if isinstance(self.options.mode, Continuous) else END
        batch = self._next_splits(position) if self._reader.is_split(self._queue[0]) else self._next_files(position)
        self._at = batch.position
        return batch

    def caught_up(self) -> bool:
        """Return whether the files of the first listing have been read."""
        return self._listings > 1 or (self._listings == 1 and not self._queue)

    def progress(self) -> Progress | None:
        return Progress(self._total - len(self._queue), self._total, "files") if self.bounded else None

    def _next_files(self, position: Position) -> SourceBatch:
        """Read the next files of the queue, as many as fit into a batch, at least one."""
        files = [self._queue.popleft()]
        room = self._reader.batch_bytes - weight(files[0])
        while self._queue and len(files) < BATCH_FILES and weight(self._queue[0]) <= room:
            if self._reader.is_split(self._queue[0]):
                break
            files.append(self._queue.popleft())
            room -= weight(files[-1])
        rows, missing = self._reader.read_files(files)
        return SourceBatch(rows, self._mark_done([file for file in files if file not in missing], position))

    def _next_splits(self, position: Position) -> SourceBatch:
        file = self._queue[0]
        file_version = {"path": file.key, "mtime_ns": file.mtime_ns, "size": file.size}
        partial = position.get(self._partial_key) or {}
        offset = partial["offset"] if partial.items() >= file_version.items() else 0
        found = self._reader.read_splits(file, offset)
        if found is None:
            self._queue.popleft()
            return SourceBatch(self._schema.columns.empty_table(), self._mark_done([], position))
        rows, end = found
        if end is not None:
            return SourceBatch(rows, {**position, self._partial_key: {**file_version, "offset": end}})
        self._queue.popleft()
        return SourceBatch(rows, self._mark_done([file], position))

    def _mark_done(self, files: list[File], position: Position) -> Position:
        after = self._tracker.add(files)
        return {**after, self._partial_key: None} if self._partial_key in position else after


def _non_empty_files(storage: Storage) -> list[File]:
    """Return the files with content; raises if there are none."""
    files = [file for file in storage.list_files() if file.size]
    if not files:
        raise storage.no_files_error().about("path")
    return files


def _check_files(context: NodeContext[FileSourceOptions]) -> str:
    storage = _storage(context)
    files = _non_empty_files(storage)
    try:
        with storage.open(files[0].path) as stream:
            stream.read(1)
    except READ_ERRORS as error:
        raise unreadable_file_error(files[0], error) from error
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _storage(context: NodeContext[FileSourceOptions]) -> Storage:
    options = context.options
    scheme, separator, rest = options.path.partition("://")
    if not separator or scheme == "file":
        path = rest if separator else options.path
        return LocalStorage(path, options.format, OwnFiles.of(context.config, os.environ))
    if scheme in _BUCKETS:
        return BucketStorage(scheme, rest, options.format, os.environ, context.network)
    raise StreamlingError.user(
        f"'{options.path}' has the scheme '{scheme}', which is not supported",
        remedy="use a local path, s3://, s3a:// or gs://",
    ).about("path")
