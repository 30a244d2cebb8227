"""State in a SQLite file. This is the default: a pipeline can resume after a restart without any set-up."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, LiteralString

from streamling.engine.state.config import SqliteStateSettings
from streamling.engine.state.ownership import lock_state
from streamling.engine.state.sqlite_database import SqliteDatabase
from streamling.engine.state.sqlite_file import SqliteFile
from streamling.errors import StreamlingError
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.shared import SharedResources
from streamling.plugins.state_backend import (
    DamagedStateError,
    StateBackend,
    StateStore,
    check_not_older,
    checked_identifier,
    encoded,
    offsets_in,
)

_TRANSIENT: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


_DAMAGED: Final = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
_NOT_WRITABLE: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})
_ELSEWHERE: Final = "set state_backend.sqlite.database_path to another file"


def _remedy(error: Exception, code: int) -> str | None:
    """Return the remedy for an error of SQLite or of the file system."""
    if code in _DAMAGED:
        return f"restore the file from a backup, move it aside with 'streamling state reset', or {_ELSEWHERE}"
    if code in _NOT_WRITABLE or isinstance(error, OSError):
        return f"allow this user to write the file and its folder, or {_ELSEWHERE}"
    if code == sqlite3.SQLITE_FULL:
        return f"free space on the disk, or {_ELSEWHERE}"
    return None


class SqliteState(StateBackend):
    """Entries of one namespace in a table of a SQLite file. File, folder and table are created if they do not exist."""

    def __init__(
        self, namespace: str, path: Path, *, table: str = "state", shared: SharedResources | None = None
    ) -> None:
        """States of one file with the same ``shared`` use the same connection."""
        self._namespace = namespace
        self._path = path
        self._table = checked_identifier(table, "state_backend.sqlite.state_table_name")
        if path.is_dir():
            raise StreamlingError.user(f"the state file {path} is a folder", remedy=_ELSEWHERE)
        self._shared = shared or SharedResources()
        self._file = self._shared.acquire(SqliteFile, lambda: SqliteFile(path, table), path.absolute(), table)
        self._is_closed = False
        try:
            with self._errors("cannot be opened"):
                self._version = self._file.open()
        except BaseException:
            self.close()
            raise

    def get(self, key: str) -> Any | None:
        query = f"SELECT data FROM {self._table} WHERE namespace = ? AND key = ?"
        with self._errors("cannot be read"), self._file.reading() as connection:
            row = connection.execute(query, (self._namespace, key)).fetchone()
        return None if row is None else json.loads(row[0])

    def get_prefix(self, prefix: str) -> dict[str, Any]:
        query = f"SELECT key, data FROM {self._table} WHERE namespace = ? AND substr(key, 1, ?) = ? ORDER BY key"
        with self._errors("cannot be read"), self._file.reading() as connection:
            rows = connection.execute(query, (self._namespace, len(prefix), prefix)).fetchall()
        return {key: json.loads(data) for key, data in rows}

    def put_many(self, entries: Mapping[str, Any]) -> None:
        self._put(entries, ())

    def put_positions(self, entries: Mapping[str, Any]) -> None:
        self._put(entries, offsets_in(entries))

    def _put(self, entries: Mapping[str, Any], forward: Sequence[str]) -> None:
        """Store ``entries``; the offsets under the keys ``forward`` do not move backwards."""
        texts, removals = encoded(entries)
        with self._errors("cannot be written"), self._file.transaction(self._version) as connection:
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
        with self._errors("cannot be written"), self._file.transaction(self._version) as connection:
            connection.execute(f"DELETE FROM {self._table} WHERE namespace = ?", (self._namespace,))

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._shared.release(self._file)

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


class SqliteStateStore(StateStore[SqliteStateSettings]):
    """A state file, which one process per application uses at a time."""

    @property
    def location(self) -> str:
        return str(self._path)

    def find(self) -> SqliteState | None:
        return self.open() if self._path.exists() else None

    def open(self) -> SqliteState:
        return SqliteState(self.application_id, self._path, table=self.settings.state_table_name, shared=self.shared)

    def locked(self) -> AbstractContextManager[None]:
        return lock_state(self._path, self.application_id)

    def connection(self) -> ConnectionCheck:
        return ConnectionCheck("SQLite file", str(self._path), self._check)

    def files(self) -> Sequence[Path]:
        names = (self._path.with_name(self._path.name + ending) for ending in ("", "-wal", "-shm"))
        return [file for file in names if file.exists()]

    def database(self, prefix: str, tables: Mapping[LiteralString, LiteralString]) -> SqliteDatabase:
        return SqliteDatabase(self._path, self.application_id, prefix, tables)

    @property
    def _path(self) -> Path:
        return self.settings.database_path

    def _check(self) -> str:
        if self._path.exists():
            return self.describe_entries() or "the file will be created"
        folder = next(parent for parent in self._path.absolute().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise StreamlingError.user(
                f"the state file {self._path} cannot be created: {folder} is not a writable folder",
                remedy="allow this user to write there, or set state_backend.sqlite.database_path",
            )
        return "the file will be created"
