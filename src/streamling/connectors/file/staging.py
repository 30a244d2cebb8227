"""A local folder for files that Spark cannot read in place: files in a bucket, large ones, names that Hadoop
rejects."""

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

#: concurrent downloads: waiting for a bucket costs no CPU
_DOWNLOADS = 16
_COPY_BYTES = 8 << 20


@dataclass(frozen=True)
class StagedFile:
    """A readable file and the file it was created from."""

    path: str
    origin: File
    #: offset of its content in the original file
    offset: int = 0


class StagingFolder:
    """Numbered files in a scratch folder, which is emptied before each batch: the previous one has been read by
    then."""

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
        """Stage whole files, in the same order; None for a file that no longer exists."""
        staged = [StagedFile(self._new_path(file), file) for file in files]
        if self._storage.is_on_disk:
            return [self._link(one) for one in staged]
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            return list(pool.map(self._download, staged))

    def next_splits(self, file: File, offset: int, room: int) -> tuple[list[tuple[bytes, int]], int | None]:
        """Return splits of one file from ``offset`` on until ``room`` bytes are filled, each with its own offset, and
        the offset after them: None at the end."""
        splits: list[tuple[bytes, int]] = []
        end: int | None = offset
        split_reader = self._split_reader_at(file, offset)
        while room > 0 and end is not None:
            start = end
            content, end = split_reader.next()
            splits.append((content, start))
            room -= len(content)
        if end is None:
            self._close_split_reader()
        return splits, end

    def stage_splits(self, file: File, splits: Sequence[tuple[bytes, int]]) -> list[StagedFile]:
        """Write splits as separate files."""
        staged = [StagedFile(self._new_path(file, content=True), file, start) for _, start in splits]
        for one, (content, _) in zip(staged, splits, strict=True):
            Path(one.path).write_bytes(content)
            os.utime(one.path, ns=(file.mtime_ns, file.mtime_ns))
        return staged

    def write(self, tables: Iterable[pa.Table]) -> str | None:
        """Write the rows of all tables to a Parquet file, in types that Spark reads; None if there is no table."""
        from pyarrow import parquet

        self._count += 1
        path, writer = os.path.join(self.root, f"{self._count:09}.parquet"), None
        for table in tables:
            held = for_spark(table)
            # Spark reads it once, immediately: compression and statistics are not worth the time
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
        """Reuse the open file if it is at this offset: a compressed file cannot be entered in the middle."""
        if self._split_reader is None or (self._split_reader.file, self._split_reader.offset) != (file, offset):
            self._close_split_reader()
            self._split_reader = _SplitReader(self._storage, file, self._format, offset)
        return self._split_reader

    def _new_path(self, file: File, content: bool = False) -> str:
        """Return a path that sorts in the order of the calls, with the folders of the partition columns."""
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
        os.symlink(self._storage.real_path(one.origin.path), one.path)
        return one

    def _download(self, one: StagedFile) -> StagedFile | None:
        try:
            with self._storage.open(one.origin.path) as stream, open(one.path, "wb") as target:
                shutil.copyfileobj(stream, target, _COPY_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StreamlingError.transient(f"'{one.origin.path}' cannot be downloaded", cause=error) from error
        os.utime(one.path, ns=(one.origin.mtime_ns, one.origin.mtime_ns))
        return one


class _SplitReader:
    """A file that is being split."""

    def __init__(self, storage: Storage, file: File, format: str, offset: int) -> None:
        self.file = file
        self.offset: int | None = offset
        try:
            self._stream = storage.open(file.path)
            self._splits: Iterator[Split] = split_file(self._stream, file.path, format, offset)
        except FileNotFoundError:
            raise
        except READ_ERRORS as error:
            raise unreadable_file_error(file, error) from error

    def next(self) -> Split:
        try:
            content, self.offset = next(self._splits)
        except READ_ERRORS as error:
            raise unreadable_file_error(self.file, error) from error
        return content, self.offset

    def close(self) -> None:
        self._stream.close()


def missing_file_error(file: File) -> StreamlingError:
    return StreamlingError.user(
        f"'{file.path}' was deleted before it was read", remedy="keep files until the pipeline has read them"
    )
