"""Storage of files: a folder, a file or a pattern, on this machine or in a bucket."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol, cast
from urllib.parse import unquote

import pyarrow as pa

from streamling.errors import StreamlingError

if TYPE_CHECKING:
    from streamling.connectors.file.own_files import OwnFiles

#: extensions by format; csv and json may be compressed
EXTENSIONS = {
    "csv": (".csv",),
    "json": (".json", ".jsonl", ".ndjson"),
    "parquet": (".parquet",),
    "avro": (".avro",),
}
#: hint on valid file names
EXPECTED_EXTENSIONS = {
    format: f"file names must end in {', '.join(endings)}, optionally followed by .gz or .zst"
    if format in ("csv", "json")
    else f"file names must end in {endings[0]}"
    for format, endings in EXTENSIONS.items()
}
COMPRESSED = (".gz", ".zst")
#: errors when reading a file, including corrupt compression
READ_ERRORS = (OSError, EOFError, zlib.error, pa.ArrowException)
_TEMPORARY = (".tmp", ".crc", ".part", ".crdownload", ".swp", "~")
_GLOB_CHARACTERS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class File:
    """A file in a listing."""

    path: str
    #: its name in the state, as in object stores: without the bucket and the leading slash
    key: str
    size: int
    mtime_ns: int
    #: ``key=value`` folders between the root and the file
    partitions: tuple[tuple[str, str], ...] = ()

    @property
    def mtime_ms(self) -> int:
        return self.mtime_ns // 1_000_000

    @property
    def is_compressed(self) -> bool:
        return self.path.lower().endswith(COMPRESSED)


class Storage(Protocol):
    """Lists files and opens them."""

    #: folder above those of `File.partitions`
    root: str
    #: whether Spark can read `File.path` itself
    is_on_disk: bool

    def list_files(self) -> list[File]:
        """Return all matching files, sorted by path; may be empty."""

    def open(self, path: str) -> IO[bytes]:
        """Open a stream of the file's bytes as they are stored."""

    def real_path(self, path: str) -> str:
        """Return the path under which Spark may read a listed file."""

    def no_files_error(self) -> StreamlingError:
        """Return the error that there is no file with content, and what was found instead."""


def unreadable_file_error(file: File, error: BaseException) -> StreamlingError:
    """Return the error for a file that exists but cannot be read."""
    if "AWS Error" in str(error) or "NETWORK_CONNECTION" in str(error):
        return StreamlingError.transient(f"'{file.path}' cannot be downloaded", cause=error)
    is_damaged = not isinstance(error, PermissionError | IsADirectoryError)
    return StreamlingError.user(
        f"'{file.path}' cannot be read",
        cause=error,
        remedy="write the file again, or remove it from the folder"
        if is_damaged
        else "allow this user to read the file",
    )


def is_data_file(name: str, format: str) -> bool:
    """Return whether a file with this name holds data of ``format``."""
    name = name.lower()
    for ending in COMPRESSED if format in ("csv", "json") else ():
        name = name.removesuffix(ending)
    return name.endswith(EXTENSIONS[format])


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is hidden, temporary or bookkeeping, such as ``.x``, ``_SUCCESS`` or
    ``a.csv.tmp``.

    ``_dt=1`` is a data folder: a column may have such a name.
    """
    if name.startswith("."):
        return True
    return (name.startswith("_") and "=" not in name) or name.lower().endswith(_TEMPORARY)


def partitions_of(path: str, root: str) -> tuple[tuple[str, str], ...]:
    """Return the ``key=value`` folders of ``path`` below ``root``, with Hive's %XX escapes decoded."""
    if "=" not in path:
        return ()
    folders = path[len(root) :].split("/")[:-1]
    return tuple(
        (unquote(name), unquote(value)) for name, equals, value in (part.partition("=") for part in folders) if equals
    )


def decompress(stream: IO[bytes], path: str) -> IO[bytes]:
    """Decompress a stream whose file name may end in ``.gz`` or ``.zst``."""
    if path.lower().endswith(".gz"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    if path.lower().endswith(".zst"):
        return io.BufferedReader(pa.CompressedInputStream(stream, "zstd"))
    return stream


class LocalStorage:
    """A folder, a file or a pattern on this machine."""

    is_on_disk = True

    def __init__(self, path: str, format: str, own_files: OwnFiles) -> None:
        self._format = format
        self._own_files = own_files
        self._path = os.path.abspath(os.path.expanduser(path))
        # A path that exists is literal, whatever characters it has.
        self._is_pattern = not os.path.exists(self._path) and not _GLOB_CHARACTERS.isdisjoint(self._path)
        self.root = self._fixed_part() if self._is_pattern else self._path
        if os.path.isfile(self.root):
            self.root = os.path.dirname(self.root)

    def list_files(self) -> list[File]:
        self._own_files.check(self._path, os.path.realpath(self.root))  # before it looks what is there
        self._own_files.check(self._path, os.path.realpath(self._path))
        try:
            files = list(self._matches() if self._is_pattern else self._walk_path(self._path))
        except OSError as error:
            raise self._list_error(error) from error
        if self._own_files.hides_others:
            files = [file for file in files if os.access(file.path, os.R_OK)]
        files.sort(key=lambda file: file.path)
        return files

    def _list_error(self, error: OSError) -> StreamlingError:
        if self._own_files.hides_others:
            return self._own_files.nothing_to_read(self._path)
        if isinstance(error, PermissionError):
            return StreamlingError.user(
                f"the folder '{error.filename}' cannot be listed",
                cause=error,
                remedy="allow this user to read it",
            )
        return StreamlingError.user(  # a link to itself, or an unavailable file system
            f"'{error.filename}' cannot be listed",
            cause=error,
            remedy="remove it from the folder, or check the file system",
        )

    def open(self, path: str) -> IO[bytes]:
        """Open a file and check it: a link may lead to another one than when it was listed."""
        real = self.real_path(path)
        with ExitStack() as unchecked:
            stream = unchecked.enter_context(open(real, "rb"))
            self._own_files.check(path, real, os.fstat(stream.fileno()))
            unchecked.pop_all()
        return stream

    def real_path(self, path: str) -> str:
        """Return the path without links; raises if no pipeline may read the file."""
        real = os.path.realpath(path)
        self._own_files.check(path, real)
        return real

    def no_files_error(self) -> StreamlingError:
        if self._own_files.hides_others:
            return self._own_files.nothing_to_read(self._path)
        folder, existing = self.root, os.path.isdir(self.root)
        if self._is_pattern:
            found = f"no {self._format} file matches '{self._path}'"
        elif not existing and is_data_file(os.path.basename(self._path), self._format):
            folder, found = os.path.dirname(self._path), f"the file '{self._path}' does not exist"
            existing = os.path.isdir(folder)
        else:
            found = f"there are no {self._format} files in '{self._path}'"
        named = "the folder" if folder == self._path else f"the folder '{folder}'"
        if not existing:
            return StreamlingError.user(
                f"{found}: {named} does not exist",
                remedy=f"correct the path; it is relative to the working directory, '{os.getcwd()}'",
            )
        if any(not file.size for file in self.list_files()):
            return StreamlingError.user(
                f"{found} with content", remedy="add rows to a file; column types are inferred from rows"
            )
        return StreamlingError.user(f"{found} ({named} exists)", remedy=EXPECTED_EXTENSIONS[self._format])

    def _fixed_part(self) -> str:
        parts = self._path.split("/")
        fixed = next(i for i, part in enumerate(parts) if not _GLOB_CHARACTERS.isdisjoint(part))
        return "/".join(parts[:fixed]) or "/"

    def _matches(self) -> Iterator[File]:
        for path in glob.iglob(self._path, recursive=True):
            if not any(map(is_hidden, path[len(self.root) :].split("/"))):
                yield from self._walk_path(path)

    def _walk_path(self, path: str) -> Iterator[File]:
        try:
            if os.path.isdir(path):
                yield from self._walk(path, frozenset())
            else:  # named by the user: any extension is accepted
                yield self._file(path, os.path.realpath(path), os.stat(path))
        except FileNotFoundError:
            return

    def _walk(self, folder: str, above: frozenset[tuple[int, int]]) -> Iterator[File]:
        identity = os.stat(folder)
        if (inode := (identity.st_dev, identity.st_ino)) in above:
            return  # a symbolic link to a parent folder
        real_folder = os.path.realpath(folder)
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                try:
                    is_link = entry.is_symlink()
                    real = os.path.realpath(entry.path) if is_link else f"{real_folder}/{entry.name}"
                    if entry.is_dir():
                        if is_link:
                            self._own_files.check(entry.path, real)
                        elif self._own_files.is_own(real):
                            continue
                        yield from self._walk(entry.path, above | {inode})
                    elif is_data_file(entry.name, self._format):
                        yield self._file(entry.path, real, entry.stat())
                except FileNotFoundError:  # deleted meanwhile, or a broken link
                    continue

    def _file(self, path: str, real: str, stat: os.stat_result) -> File:
        self._own_files.check(path, real)
        return File(path, path.lstrip("/"), stat.st_size, stat.st_mtime_ns, partitions_of(path, self.root))
