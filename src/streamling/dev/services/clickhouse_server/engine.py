"""The engine of `chdb`: one per process, with a connection per request or session."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from streamling.dev.services.clickhouse_server.errors import ClickHouseError
from streamling.dev.services.clickhouse_server.statement import Insert, first_word
from streamling.dev.services.extra import location

#: statements that the engine does not count as reading, but that do not change data either
_HARMLESS: Final = frozenset({"SET", "USE", "CREATE"})


@dataclass(frozen=True)
class Statistics:
    """What the engine reports about a statement; the names are those of the header X-ClickHouse-Summary."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    total_rows_to_read: int = 0
    result_rows: int = 0
    result_bytes: int = 0
    elapsed_ns: int = 0


class Engine:
    """The databases in ``folder``. Connections are independent: each has its own settings, current database and
    temporary tables, and their statements run at the same time."""

    def __init__(self, folder: Path) -> None:
        self._chdb = _load_chdb()
        self._folder = str(folder)
        self._first = self.connect()  # the engine stops when its last connection is closed
        self.timezone = self._first.query("SELECT timezone()", "TSVRaw")[0].decode().strip()

    def connect(self) -> Connection:
        """Return a new connection: takes a fifth of a millisecond."""
        return Connection(self._chdb.connect(self._folder), self._chdb.query_class)

    def cancel(self, words: Sequence[str]) -> None:
        """Cancel the statements that contain these words, one after the other."""
        # as several literals: otherwise this statement would contain them too
        text = ", ".join(map(quote, words))
        connection = self.connect()
        connection.query(f"KILL QUERY WHERE position(query, concat({text})) > 0")
        connection.close()


class Connection:
    """One session of the engine; runs one statement at a time."""

    def __init__(self, connection: Any, query_class: Any) -> None:
        self._connection = connection
        self._class = query_class

    def set(self, settings: Mapping[str, str]) -> None:
        if settings:
            self.query("SET " + ", ".join(f"{name} = {quote(value)}" for name, value in settings.items()))

    def reset(self, names: Iterable[str]) -> None:
        """Give settings their default values."""
        if changes := ", ".join(f"{name} = DEFAULT" for name in names):
            self.query(f"SET {changes}")

    def use(self, database: str) -> None:
        self.query(f"USE {quote_identifier(database)}")

    def has_output(self, statement: bytes, *, read_only: bool) -> bool:
        """Return whether a statement returns rows; raises an error for one that clients may not send over HTTP."""
        found = self._connection.classify_query(statement)
        if found["statement_count"] > 1:
            raise ClickHouseError.of(62, "SYNTAX_ERROR", "Syntax error (Multi-statements are not allowed).")
        kind = found["query_class"]
        if read_only and self._changes_data(kind, statement):
            raise ClickHouseError.of(
                164,
                "READONLY",
                "default: Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. "
                "You should use method POST for modifying queries.",
            )
        return bool(kind == self._class.READ_ONLY)

    def _changes_data(self, kind: object, statement: bytes) -> bool:
        if kind == self._class.CONTROL:
            return first_word(statement) not in _HARMLESS
        return kind in (self._class.MUTATING, self._class.MUTATING_GLOBAL)

    def query(
        self,
        statement: str | bytes,
        format: str = "TabSeparated",
        parameters: Mapping[str, str] | None = None,
        report: Callable[[Statistics], None] | None = None,
    ) -> tuple[bytes, Statistics]:
        """Run a statement and return its whole output; calls ``report`` while it runs."""
        if report is not None:
            self._connection.set_progress_callback(lambda progress: report(_from_progress(progress)))
        try:
            with engine_errors():
                result = self._connection.query(statement, format, params=dict(parameters or {}))
        finally:
            if report is not None:
                self._connection.set_progress_callback(None)
        return result.bytes(), _from_result(result)

    def insert(self, insert: Insert, chunks: Iterable[bytes]) -> Statistics:
        """Insert the rows in ``chunks``, which are in the format of ``insert``."""
        with engine_errors():
            handle = self._connection.send_insert(insert.query, insert.format)
        try:
            for chunk in chunks:
                with engine_errors():
                    self._connection.insert_append(handle, chunk)
            with engine_errors():
                return _from_result(self._connection.insert_done(handle))
        except BaseException:
            with contextlib.suppress(RuntimeError):
                self._connection.insert_cancel(handle)
            raise

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """Turn the engine's errors into those of this package."""
    try:
        yield
    except RuntimeError as error:
        raise ClickHouseError.from_engine(error) from None


def quote(text: str) -> str:
    """Return a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_identifier(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _from_progress(progress: Mapping[str, int]) -> Statistics:
    return Statistics(**{name: progress[name] for name in Statistics.__dataclass_fields__})


def _from_result(result: Any) -> Statistics:
    return Statistics(
        read_rows=result.storage_rows_read() or result.rows_written(),
        read_bytes=result.storage_bytes_read() or result.bytes_written(),
        written_rows=result.rows_written(),
        written_bytes=result.bytes_written(),
        total_rows_to_read=result.storage_rows_read(),
        result_rows=result.rows_read() or result.rows_written(),
        result_bytes=result.bytes_read() or result.bytes_written(),
        elapsed_ns=int(result.elapsed() * 1e9),
    )


def _load_chdb() -> Any:
    """Return the compiled module of the package, without the package: importing that takes a second longer, because it
    starts an engine in memory and loads numpy."""
    package = ModuleType("chdb")
    package.__path__ = [location("chdb")]
    sys.modules["chdb"] = package
    return import_module("chdb._chdb")
