"""The file source: csv, json, parquet and avro files, once or as they arrive."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import BeforeValidator, Field

from streamling.errors import StreamlingError
from streamling.pipeline.options import Options, Parallel, SourceOptions
from streamling.pipeline.scalars import Duration
from streamling.plugins.operators import END, End, Position, Progress, Source, SourceBatch, SparkRead, Wait
from streamling.sources import _file_csv
from streamling.sources._file_frames import Group, Reading
from streamling.sources._file_progress import Ledger, Ranges, Tracker
from streamling.sources._file_schema import FileSchema, infer
from streamling.sources._file_storage import File, LocalStorage, Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext

#: A batch is collected in memory. Compressed files grow several times when read.
BATCH_FILES = 1000
BATCH_BYTES = {"csv": 128 << 20, "json": 128 << 20, "parquet": 32 << 20, "avro": 32 << 20}
_COMPRESSED_WEIGHT = 4


class Bounded(Options):
    """Read the files that are there, then end."""

    type: Literal["bounded"]


class Continuous(Options):
    """Keep looking for new and changed files."""

    type: Literal["continuous"] = "continuous"
    poll_interval: Duration = Field(default=5.0, gt=0, description="Pause between two looks, such as 5s.")


def _format_name(value: object) -> object:
    return "json" if value in ("ndjson", "jsonl") else value


class FileSourceOptions(Parallel, SourceOptions):
    """Fields of a `file` source."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"path"})

    path: str = Field(min_length=1, description="Folder, file or pattern; local, s3://, s3a:// or gs://.")
    format: Annotated[Literal["csv", "json", "parquet", "avro"], BeforeValidator(_format_name)] = Field(
        description="csv (with header), json (one object per line; also ndjson, jsonl), parquet or avro."
    )
    mode: Bounded | Continuous = Field(
        default_factory=Continuous,
        discriminator="type",
        description="bounded reads what is there and ends; continuous also takes what arrives.",
    )


class FileSource(Source[FileSourceOptions]):
    """Files of one format under a path, in batches that Spark reads."""

    Options = FileSourceOptions

    def __init__(self, context: NodeContext[FileSourceOptions]) -> None:
        super().__init__(context)
        self.bounded = isinstance(self.options.mode, Bounded)
        self._storage: Storage = LocalStorage(self.options.path, self.options.format)
        self._tracker: Tracker | None = None
        self._queue: deque[File] = deque()
        self._total = self._left = 0

    def labels(self) -> dict[str, str]:
        return {"path": self.options.path}

    def schema(self) -> pa.Schema:
        return self._schema.columns

    @cached_property
    def _schema(self) -> FileSchema:
        files = [file for file in self._storage.list_files() if file.size]
        if not files:
            raise StreamlingError.user(
                f"no {self.options.format} file found for source '{self.context.name}' in '{self.options.path}'",
                remedy="check the path, and that the files have the usual ending",
            )
        return infer(self._storage, files, self.options.format)

    # ── position ─────────────────────────────────────────────────────────────────────────────────────────────

    def restore(self) -> Position:
        stored = self.context.state.get_prefix(f"{self.context.name}:")
        if self.bounded:
            return {
                key: value for key, value in stored.items() if key == f"{self.context.name}:bounded_progress"
            }
        ours = (f"{self.context.name}:watermark", f"{self.context.name}:seen:")
        position = {key: value for key, value in stored.items() if key.startswith(ours)}
        return Ledger(self.context.name, position).adopt(self._storage.list_files())

    def _tracked(self, position: Position) -> Tracker:
        """What is done at ``position``; made anew only when it is not the one handed out last."""
        if self._tracker is None or self._tracker.position is not position:
            self._tracker = (Ranges if self.bounded else Ledger)(self.context.name, position)
            self._queue.clear()
            self._list(self._tracker)
        return self._tracker

    def _list(self, tracker: Tracker) -> None:
        listing = self._storage.list_files()
        self._queue.extend(tracker.pending(listing))
        self._total, self._left = len(listing), len(self._queue)

    # ── batches ──────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, position: Position) -> SourceBatch | Wait | End:
        tracker = self._tracked(position)
        if not self._queue and isinstance(self.options.mode, Continuous):
            self._list(tracker)
            if not self._queue:
                return Wait(self.options.mode.poll_interval)
        if not self._queue:
            return END
        files = self._next_files()
        rows = self._rows([file for file in files if file.size])
        return SourceBatch(rows, tracker.add(files))

    def progress(self) -> Progress | None:
        return Progress(self._total - self._left, self._total, "files") if self.bounded else None

    def _next_files(self) -> list[File]:
        """The next files of the queue, as many as make a good batch, at least one."""
        files = [self._queue.popleft()]
        room = BATCH_BYTES[self.options.format] - _weight(files[0])
        while self._queue and len(files) < BATCH_FILES and _weight(self._queue[0]) <= room:
            files.append(self._queue.popleft())
            room -= _weight(files[-1])
        self._left = len(self._queue)
        return files

    def _rows(self, files: Sequence[File]) -> pa.Table | SparkRead:
        if not files:
            return self._schema.columns.empty_table()
        return SparkRead(lambda spark: self._frame(spark, files))

    def _frame(self, spark: SparkSession, files: Sequence[File]) -> DataFrame:
        gone = next((file.path for file in files if not os.path.exists(file.path)), None)
        if gone is not None:
            raise StreamlingError.user(
                f"'{gone}' was deleted before it was read",
                remedy="keep files until the pipeline has read them",
            )
        reading = Reading(self.options.format, self._schema, self._storage.root, self._parallelism)
        return reading.frame(spark, self._groups(files))

    @property
    def _parallelism(self) -> int | None:
        return self.options.parallelism or (None if self.bounded else 1)

    def _groups(self, files: Sequence[File]) -> list[Group]:
        if self.options.format != "csv":
            return [Group([file.path for file in files], self._schema.data.names)]
        # Spark takes CSV columns by position: files are read together only when their headers agree.
        by_header: dict[tuple[str, ...], list[str]] = {}
        for file in files:
            with self._storage.open(file.path) as stream:
                header = tuple(_file_csv.read_header(stream, file.path))
            by_header.setdefault(header, []).append(file.path)
        return [Group(paths, header) for header, paths in by_header.items()]


def _weight(file: File) -> int:
    return file.size * (_COMPRESSED_WEIGHT if file.is_compressed else 1)
