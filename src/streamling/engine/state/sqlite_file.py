"""A SQLite file with a table of entries, opened once for all pipelines of a process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from streamling.errors import StreamlingError

#: Seconds to wait for another process that is writing to the same file.
BUSY_TIMEOUT: Final = 5.0

_CLOSE_SECONDS: Final = 0.5


class SqliteFile:
    """One connection, used by one thread at a time: SQLite has one writer per file anyway, and connections that wait
    for each other sleep. Thread-safe. Errors are those of SQLite, except for a file that has disappeared."""

    def __init__(self, path: Path, table: str) -> None:
        self._path = path
        self._table = table
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._files: dict[Path, tuple[int, int]] = {}
        self._version = 0

    def open(self) -> int:
        """Open the file, also if it is another one than before; returns a version that `transaction` checks."""
        with self._lock:
            if self._connection is None or self._changed_file() is not None:
                self._disconnect()
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = self._connect()
                self._files = self._identities()
                self._version += 1
            return self._version

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Provide the connection, for one query."""
        with self._lock:
            yield self._opened()

    @contextmanager
    def transaction(self, version: int) -> Iterator[sqlite3.Connection]:
        """Run the block in a transaction, which is durable when it has ended. Raise if the file is not that of
        ``version``."""
        with self._lock:
            self._check(version)
            connection = self._opened()
            # IMMEDIATE: wait for another writer here; a lock upgraded later would fail without waiting
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self._check(version)
            self._files = self._identities()

    def close(self) -> None:
        # a thread that still waits for the lock of another process must not block the end of this one
        if self._lock.acquire(timeout=_CLOSE_SECONDS):
            try:
                self._disconnect()
            finally:
                self._lock.release()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the file is closed")
        return self._connection

    def _connect(self) -> sqlite3.Connection:
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

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _check(self, version: int) -> None:
        """Raise an error if the file is not the one that was opened: SQLite continues to write to a file that was
        deleted, and everything would be lost after a restart."""
        changed = self._path if version != self._version else self._changed_file()
        if changed is not None:
            raise StreamlingError(
                f"the state file {changed} was {'replaced' if changed.exists() else 'deleted'} while the pipeline was "
                "running; positions are no longer stored",
                remedy="restart the pipeline: it continues from the state that exists then, or from the start",
            )

    def _changed_file(self) -> Path | None:
        """Return a file that has been deleted or replaced since it was opened."""
        found = self._identities()
        return next((file for file, identity in self._files.items() if found.get(file) != identity), None)

    def _identities(self) -> dict[Path, tuple[int, int]]:
        """Return the database and its write-ahead log, with the identities of the files."""
        found = {}
        for file in (self._path, self._path.with_name(f"{self._path.name}-wal")):
            with suppress(OSError):
                stat = file.stat()
                found[file] = stat.st_dev, stat.st_ino
        return found
