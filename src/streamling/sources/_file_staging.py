"""A folder of our own for what Spark cannot read where it is: files in a bucket, large ones, odd names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from streamling.errors import StreamlingError
from streamling.sources._file_pieces import Piece, cut
from streamling.sources._file_storage import ENDINGS, File, Storage
from streamling.spark.scratch import Scratch

#: downloads side by side: waiting for a bucket costs no core
_DOWNLOADS = 16
_COPY_BYTES = 8 << 20


@dataclass(frozen=True)
class Staged:
    """A readable file and the one it was made from."""

    path: str
    origin: File
    #: where in the original its content begins
    offset: int = 0


class Staging:
    """Numbered files in a scratch folder, emptied before each batch: the one before has been read by then."""

    def __init__(self, storage: Storage, format: str) -> None:
        self._storage = storage
        self._format = format
        self._scratch = Scratch()
        folder = self._scratch.path / "files"
        folder.mkdir()
        self.root = str(folder)
        self._count = 0
        self._cutting: _Cutting | None = None

    def clear(self) -> None:
        for entry in os.scandir(self.root):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)

    def stage(self, files: Sequence[File]) -> list[Staged]:
        """Whole files, in the same order."""
        staged = [Staged(self._new_path(file), file) for file in files]
        if self._storage.is_local:
            for one in staged:
                os.symlink(one.origin.path, one.path)
            return staged
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            list(pool.map(self._download, staged))
        return staged

    def stage_pieces(self, file: File, offset: int, room: int) -> tuple[list[Staged], int | None]:
        """Pieces of one file from ``offset`` on until ``room`` bytes are filled, and the offset behind them:
        None when the file is at its end."""
        staged = []
        end: int | None = offset
        cutting = self._cutting_at(file, offset)
        while room > 0 and end is not None:
            start = end
            content, end = cutting.next()
            one = Staged(self._new_path(file, content=True), file, start)
            Path(one.path).write_bytes(content)
            os.utime(one.path, ns=(file.mtime_ns, file.mtime_ns))
            staged.append(one)
            room -= len(content)
        if end is None:
            self._stop_cutting()
        return staged, end

    def close(self) -> None:
        self._stop_cutting()
        self._scratch.remove()

    def _stop_cutting(self) -> None:
        if self._cutting is not None:
            self._cutting.close()
            self._cutting = None

    def _cutting_at(self, file: File, offset: int) -> _Cutting:
        """The open file when it stands there already: a compressed one cannot be entered in the middle."""
        if self._cutting is None or (self._cutting.file, self._cutting.offset) != (file, offset):
            self._stop_cutting()
            self._cutting = _Cutting(self._storage, file, self._format, offset)
        return self._cutting

    def _new_path(self, file: File, content: bool = False) -> str:
        """A path whose order is the order of the calls, with the folders that give the partition columns."""
        folders = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in file.partitions]
        self._count += 1
        ending = next((e for e in (".gz", ".zst") if file.path.lower().endswith(e)), "")
        suffix = ENDINGS[self._format][0] + ("" if content else ending)
        path = os.path.join(self.root, *folders, f"{self._count:09}{suffix}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _download(self, one: Staged) -> None:
        try:
            with self._storage.open(one.origin.path) as stream, open(one.path, "wb") as target:
                shutil.copyfileobj(stream, target, _COPY_BYTES)
        except FileNotFoundError as error:
            raise gone(one.origin) from error
        except OSError as error:
            raise StreamlingError.transient(f"'{one.origin.path}' cannot be fetched", cause=error) from error
        os.utime(one.path, ns=(one.origin.mtime_ns, one.origin.mtime_ns))


class _Cutting:
    """A file that is being cut."""

    def __init__(self, storage: Storage, file: File, format: str, offset: int) -> None:
        self.file = file
        self.offset: int | None = offset
        try:
            self._stream = storage.open(file.path)
        except FileNotFoundError as error:
            raise gone(file) from error
        self._pieces: Iterator[Piece] = cut(self._stream, file.path, format, offset)

    def next(self) -> Piece:
        content, self.offset = next(self._pieces)
        return content, self.offset

    def close(self) -> None:
        self._stream.close()


def gone(file: File) -> StreamlingError:
    return StreamlingError.user(
        f"'{file.path}' was deleted before it was read", remedy="keep files until the pipeline has read them"
    )
