"""State in a SQLite file. This is the default: a pipeline can resume after a restart without any set-up."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from streamling.errors import StreamlingError
from streamling.state.backend import StateBackend, check_not_older, checked_identifier, encoded, offsets_in

#: Seconds to wait for another process that is writing to the same file.
BUSY_TIMEOUT: Final = 5.0

_CLOSE_SECONDS: Final = 0.5

_TRANSIENT: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


_DAMAGED: Final = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
_NOT_WRITABLE: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})
_ELSEWHERE: Final = "set state_backend.sqlite.database_path to another file"


class DamagedStateError(StreamlingError):
    """The state file is not a SQLite database, or is damaged."""


def _remedy(error: Exception, code: int) -> str | None:
    """The remedy for an error of SQLite or of the file system."""
    if code in _DAMAGED:
        return f"restore the file from a backup, move it aside with 'streamling state reset', or {_ELSEWHERE}"
    if code in _NOT_WRITABLE or isinstance(error, OSError):
        return f"allow this user to write the file and its folder, or {_ELSEWHERE}"
    if code == sqlite3.SQLITE_FULL:
        return f"free space on the disk, or {_ELSEWHERE}"
    return None


class SqliteState(StateBackend):
    """Entries of one namespace in a table of a SQLite file. File, folder and table are created if they do not exist."""

    def __init__(self, namespace: str, path: Path, *, table: str = "state") -> None:
        self._namespace = namespace
        self._path = path
        self._table = checked_identifier(table, "state_backend.sqlite.state_table_name")
        self._lock = threading.Lock()
        if path.is_dir():
            raise StreamlingError.user(f"the state file {path} is a folder", remedy=_ELSEWHERE)
        with self._errors("cannot be opened"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._open()
        self._files = self._identities()

    def _open(self) -> sqlite3.Connection:
        # autocommit: transactions are started explicitly, so that a write takes its lock at the start
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # NORMAL loses the last commits at a power failure, and with them positions already committed to Kafka
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (namespace TEXT, key TEXT, data TEXT NOT NULL, "
                "created_at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (namespace, key))"
            )
            # a read-only file is detected now, not at the first checkpoint
            connection.execute(f"DELETE FROM {self._table} WHERE false")
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def files(path: Path) -> list[Path]:
        """The existing files of the database at ``path``."""
        return [file for ending in ("", "-wal", "-shm") if (file := path.with_name(path.name + ending)).exists()]

    def get(self, key: str) -> Any | None:
        query = f"SELECT data FROM {self._table} WHERE namespace = ? AND key = ?"
        with self._errors("cannot be read"), self._lock:
            row = self._connection.execute(query, (self._namespace, key)).fetchone()
        return None if row is None else json.loads(row[0])

    def get_prefix(self, prefix: str) -> dict[str, Any]:
        query = f"SELECT key, data FROM {self._table} WHERE namespace = ? AND substr(key, 1, ?) = ? ORDER BY key"
        with self._errors("cannot be read"), self._lock:
            rows = self._connection.execute(query, (self._namespace, len(prefix), prefix)).fetchall()
        return {key: json.loads(data) for key, data in rows}

    def put_many(self, entries: Mapping[str, Any]) -> None:
        self._put(entries, ())

    def put_positions(self, entries: Mapping[str, Any]) -> None:
        self._put(entries, offsets_in(entries))

    def _put(self, entries: Mapping[str, Any], forward: Sequence[str]) -> None:
        """Store ``entries``; the offsets under the keys ``forward`` do not move backwards."""
        texts, removals = encoded(entries)
        with self._errors("cannot be written"), self._transaction() as connection:
            if forward:
                marks = ", ".join("?" * len(forward))
                query = f"SELECT key, data FROM {self._table} WHERE namespace = ? AND key IN ({marks})"
                rows = connection.execute(query, (self._namespace, *forward)).fetchall()
                check_not_older({key: json.loads(data) for key, data in rows}, entries)
            connection.executemany(
                f"INSERT INTO {self._table} (namespace, key, data) VALUES (?, ?, ?) "
                "ON CONFLICT (namespace, key) DO UPDATE SET data = excluded.data",
                [(self._namespace, key, text) for key, text in texts.items()],
            )
            connection.executemany(
                f"DELETE FROM {self._table} WHERE namespace = ? AND key = ?",
                [(self._namespace, key) for key in removals],
            )

    def clear(self) -> None:
        with self._errors("cannot be written"), self._transaction() as connection:
            connection.execute(f"DELETE FROM {self._table} WHERE namespace = ?", (self._namespace,))

    def close(self) -> None:
        # a thread that still waits for the lock of another process must not block the end of this one
        if self._lock.acquire(timeout=_CLOSE_SECONDS):
            try:
                self._connection.close()
            finally:
                self._lock.release()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._check_files()
            # IMMEDIATE: wait for another writer here; a lock upgraded later would fail without waiting
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
            self._check_files()

    def _check_files(self) -> None:
        """SQLite continues to write to a file that was deleted, and everything would be lost after a restart."""
        found = self._identities()
        for file, identity in self._files.items():
            if found.get(file) != identity:
                raise StreamlingError(
                    f"the state file {file} was {'replaced' if file in found else 'deleted'} while the pipeline was "
                    "running; positions are no longer stored",
                    remedy="restart the pipeline: it continues from the state that exists then, or from the start",
                )
        self._files = found

    def _identities(self) -> dict[Path, tuple[int, int]]:
        """The database and its write-ahead log, with the identities of the files."""
        found = {}
        for file in (self._path, self._path.with_name(f"{self._path.name}-wal")):
            with suppress(OSError):
                stat = file.stat()
                found[file] = stat.st_dev, stat.st_ino
        return found

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended part
            kind = DamagedStateError if code in _DAMAGED else StreamlingError
            raise kind(
                f"the state file {self._path} {what}: {getattr(error, 'strerror', None) or error}",
                retriable=code in _TRANSIENT,
                remedy=_remedy(error, code),
            ) from None  # the message contains its text
