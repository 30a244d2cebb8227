"""A folder of our own for what Spark cannot read where it is: files in a bucket, large ones, odd names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from streamling.connectors.file.splits import Split, split_file
from streamling.connectors.file.storage import EXTENSIONS, READ_ERRORS, File, Storage, unreadable_file_error
from streamling.connectors.file.values import for_spark
from streamling.errors import StreamlingError
from streamling.spark.scratch import Scratch

#: downloads side by side: waiting for a bucket costs no core
_DOWNLOADS = 16
_COPY_BYTES = 8 << 20


@dataclass(frozen=True)
class StagedFile:
    """A readable file and the one it was made from."""

    path: str
    origin: File
    #: where in the original its content begins
    offset: int = 0


class StagingFolder:
    """Numbered files in a scratch folder, emptied before each batch: the one before has been read by then."""

    def __init__(self, storage: Storage, format: str) -> None:
        self._storage = storage
        self._format = format
        self._scratch = Scratch()
        folder = self._scratch.path / "files"
        folder.mkdir()
        self.root = str(folder)
        self._count = 0
        self._split_reader: _SplitReader | None = None

    def clear(self) -> None:
        for entry in os.scandir(self.root):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)

    def stage(self, files: Sequence[File]) -> list[StagedFile | None]:
        """Whole files, in the same order; None for one that is gone."""
        staged = [StagedFile(self._new_path(file), file) for file in files]
        if self._storage.is_local:
            return [self._link(one) for one in staged]
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            return list(pool.map(self._download, staged))

    def next_splits(self, file: File, offset: int, room: int) -> tuple[list[tuple[bytes, int]], int | None]:
        """Pieces of one file from ``offset`` on until ``room`` bytes are filled, each with its own offset, and the
        offset behind them: None at the end."""
        pieces: list[tuple[bytes, int]] = []
        end: int | None = offset
        cutting = self._split_reader_at(file, offset)
        while room > 0 and end is not None:
            start = end
            content, end = cutting.next()
            pieces.append((content, start))
            room -= len(content)
        if end is None:
            self._close_split_reader()
        return pieces, end

    def stage_splits(self, file: File, pieces: Sequence[tuple[bytes, int]]) -> list[StagedFile]:
        """Pieces as files of their own."""
        staged = [StagedFile(self._new_path(file, content=True), file, start) for _, start in pieces]
        for one, (content, _) in zip(staged, pieces, strict=True):
            Path(one.path).write_bytes(content)
            os.utime(one.path, ns=(file.mtime_ns, file.mtime_ns))
        return staged

    def write(self, tables: Iterable[pa.Table]) -> str | None:
        """A Parquet file with the rows of all tables, in types that Spark reads; None when there is no table."""
        from pyarrow import parquet

        self._count += 1
        path, writer = os.path.join(self.root, f"{self._count:09}.parquet"), None
        for table in tables:
            held = for_spark(table)
            # Spark reads it once, right away: nothing that makes files small or searchable is worth its time
            writer = writer or parquet.ParquetWriter(
                path, held.schema, compression="none", use_dictionary=False, write_statistics=False, store_schema=False
            )
            writer.write_table(held)
        if writer is None:
            return None
        writer.close()
        return path

    def close(self) -> None:
        self._close_split_reader()
        self._scratch.remove()

    def _close_split_reader(self) -> None:
        if self._split_reader is not None:
            self._split_reader.close()
            self._split_reader = None

    def _split_reader_at(self, file: File, offset: int) -> _SplitReader:
        """The open file when it stands there already: a compressed one cannot be entered in the middle."""
        if self._split_reader is None or (self._split_reader.file, self._split_reader.offset) != (file, offset):
            self._close_split_reader()
            self._split_reader = _SplitReader(self._storage, file, self._format, offset)
        return self._split_reader

    def _new_path(self, file: File, content: bool = False) -> str:
        """A path whose order is the order of the calls, with the folders that give the partition columns."""
        folders = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in file.partitions]
        self._count += 1
        ending = next((e for e in (".gz", ".zst") if file.path.lower().endswith(e)), "")
        suffix = EXTENSIONS[self._format][0] + ("" if content else ending)
        path = os.path.join(self.root, *folders, f"{self._count:09}{suffix}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _link(self, one: StagedFile) -> StagedFile | None:
        if not os.path.exists(one.origin.path):
            return None
        os.symlink(one.origin.path, one.path)
        return one

    def _download(self, one: StagedFile) -> StagedFile | None:
        try:
            with self._storage.open(one.origin.path) as stream, open(one.path, "wb") as target:
                shutil.copyfileobj(stream, target, _COPY_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StreamlingError.transient(f"'{one.origin.path}' cannot be fetched", cause=error) from error
        os.utime(one.path, ns=(one.origin.mtime_ns, one.origin.mtime_ns))
        return one


class _SplitReader:
    """A file that is being cut."""

    def __init__(self, storage: Storage, file: File, format: str, offset: int) -> None:
        self.file = file
        self.offset: int | None = offset
        try:
            self._stream = storage.open(file.path)
            self._pieces: Iterator[Split] = split_file(self._stream, file.path, format, offset)
        except FileNotFoundError:
            raise
        except READ_ERRORS as error:
            raise unreadable_file_error(file, error) from error

    def next(self) -> Split:
        try:
            content, self.offset = next(self._pieces)
        except READ_ERRORS as error:
            raise unreadable_file_error(self.file, error) from error
        return content, self.offset

    def close(self) -> None:
        self._stream.close()


def missing_file_error(file: File) -> StreamlingError:
    return StreamlingError.user(
        f"'{file.path}' was deleted before it was read", remedy="keep files until the pipeline has read them"
    )
