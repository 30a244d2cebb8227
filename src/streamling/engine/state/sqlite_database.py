"""Tables next to the state in a SQLite file. One process at a time uses them; the lock ends with the process."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, LiteralString

from streamling.engine.state.ownership import lock_state
from streamling.errors import StreamlingError
from streamling.plugins.state_backend import CHECK_STATEMENT, CHECK_TABLE, Execute

_BUSY_SECONDS: Final = 5.0
#: less than this on the disk of a file is not enough for one change
_FREE_BYTES: Final = 2 * 2**20


class SqliteDatabase:
    """A SQLite file; without a path, in memory."""

    def __init__(
        self, path: Path | None, owner: str, prefix: str, tables: Mapping[LiteralString, LiteralString]
    ) -> None:
        """The file is locked for ``owner``."""
        self._path = path
        self._tables = {name: f"{prefix}_{name}" for name in (*tables, *CHECK_TABLE)}
        self._lock = threading.Lock()
        self._resources = ExitStack()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._resources.enter_context(lock_state(path, owner))
        with self._errors():
            self._connection = sqlite3.connect(
                path or ":memory:", timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            for name, columns in {**tables, **CHECK_TABLE}.items():
                self._execute(self._connection, "CREATE TABLE IF NOT EXISTS {" + name + "} (" + columns + ")")

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        with self._errors(), self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield partial(self._execute, self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        if self._path is None:
            with self.transaction() as execute:
                yield execute
            return
        # another connection: this one may be waiting for the lock of a writer, which readers do not need
        with self._errors(), closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
            yield partial(self._execute, reader)

    def check_writable(self) -> None:
        if self._path is not None and (free := shutil.disk_usage(self._path.parent).free) < _FREE_BYTES:
            raise StreamlingError(f"the disk of {self._path} has {free // 1024} KiB left", retriable=True)
        with self.transaction() as execute:
            execute(CHECK_STATEMENT, (str(time.time()),))

    def close(self) -> None:
        with self._lock:
            self._connection.close()
        self._resources.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StreamlingError(
                f"the catalogue in {self._path or 'memory'} cannot be used: {error}",
                retriable=isinstance(error, sqlite3.OperationalError),
            ) from None

    def _execute(
        self, connection: sqlite3.Connection, statement: LiteralString, values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        text = statement.format(**self._tables, serial="INTEGER PRIMARY KEY AUTOINCREMENT").replace("%s", "?")
        return connection.execute(text, values).fetchall()
