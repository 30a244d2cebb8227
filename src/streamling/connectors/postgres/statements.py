"""The statements of a Postgres sink. psycopg quotes names; values are sent with COPY, never in a statement.

A transaction takes three or four round trips: begin, COPY, the statements that apply the copied rows, and the commit.
The commit is sent only after the server has confirmed everything before it. Sent together, the server would commit the
rows of a process that was killed while they waited for a lock, over newer rows of its successor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from streamling.connectors.postgres.table import TableColumn, TableName
from streamling.connectors.write_plan import Action
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from psycopg import sql

Steps = Sequence[tuple[int, Action]]

#: the staging table's own column; no target table has it, since `_gs_op` itself is not stored
STEP = OP_COLUMN


class Transaction(Protocol):
    """The statements that write one batch."""

    @property
    def begin(self) -> bytes: ...

    @property
    def copy(self) -> bytes: ...

    def apply(self, steps: Steps) -> bytes:
        """Return the statements that follow the COPY; empty if it has written everything."""
        ...


@dataclass(frozen=True)
class CopyTransaction:
    """Copies rows directly into the table."""

    table: TableName
    columns: Sequence[TableColumn]
    statement_timeout_ms: int

    @cached_property
    def begin(self) -> bytes:
        return _begin_statement(self.statement_timeout_ms)

    @cached_property
    def copy(self) -> bytes:
        columns = quote_names([column.name for column in self.columns])
        copy = "COPY {table} ({columns}) FROM STDIN (FORMAT csv)"
        return statement(copy, table=self.table.identifier(), columns=columns)

    def apply(self, steps: Steps) -> bytes:
        return b""


@dataclass(frozen=True)
class StagedTransaction:
    """Copies rows into a temporary table, and from there into the target table, step by step."""

    #: the temporary table's own column, which the target table does not have
    step: ClassVar[str] = STEP

    table: TableName
    columns: Sequence[TableColumn]
    key: Sequence[str]
    statement_timeout_ms: int
    #: whether rows carry their step number as the last column; this costs 7 % of the server's time
    with_steps: bool

    @cached_property
    def begin(self) -> bytes:
        """The staging table is created if this server session has none yet: behind a pooler in transaction mode every
        transaction may run in another session."""
        create = (
            "CREATE TEMP TABLE IF NOT EXISTS {staging} ON COMMIT DELETE ROWS AS "
            "SELECT {columns}{step} FROM {table} WITH NO DATA"
        )
        return _begin_statement(self.statement_timeout_ms) + b"; " + self._text(create, step=self._step("{}, 0 AS {}"))

    @cached_property
    def copy(self) -> bytes:
        return self._text("COPY {staging} ({columns}{step}) FROM STDIN (FORMAT csv)", step=self._step("{}, {}"))

    def _where(self, step: int) -> sql.Composable:
        """Return the condition for the rows of one step."""
        from psycopg import sql

        if not self.with_steps:
            return sql.SQL("")
        return sql.SQL("WHERE {} = {}").format(sql.Identifier(self.step), step)

    def _step(self, text: str) -> sql.Composable:
        from psycopg import sql

        return sql.SQL(text).format(sql.SQL(""), sql.Identifier(self.step)) if self.with_steps else sql.SQL("")

    def _text(self, text: str, **parts: Any) -> bytes:
        from psycopg import sql

        known = {
            "table": self.table.identifier(),
            "staging": sql.Identifier("pg_temp", self._staging),
            "columns": quote_names([column.name for column in self.columns]),
        }
        return statement(text, **known, **parts)

    @cached_property
    def _staging(self) -> str:
        """The name is unique per shape, because other sinks may have left their staging tables in the same server
        session."""
        shape = repr((self.table, [(column.name, column.type) for column in self.columns], self.with_steps, self.step))
        return f"streamling_{hashlib.sha256(shape.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class UpsertTransaction(StagedTransaction):
    """Upserts or deletes rows."""

    keep_existing: bool
    update_where: Mapping[str, str]

    def apply(self, steps: Steps) -> bytes:
        return b"; ".join(
            self._upsert(number) if action == "write" else self._delete(number) for number, action in steps
        )

    def _upsert(self, step: int) -> bytes:
        return self._text(
            "INSERT INTO {table} AS target ({columns}) "
            "SELECT {columns} FROM {staging} {where} ON CONFLICT ({key}) {act}",
            where=self._where(step),
            key=quote_names(self.key),
            act=self._on_conflict,
        )

    @cached_property
    def _on_conflict(self) -> sql.Composable:
        from psycopg import sql

        values = [column.name for column in self.columns if column.name not in self.key]
        if self.keep_existing or not values:
            return sql.SQL("DO NOTHING")
        update = sql.SQL("DO UPDATE SET {}").format(assign_excluded(values))
        if not self.update_where:
            return update
        conditions = [
            # operators come from a fixed list
            sql.SQL("excluded.{0} {1} target.{0}").format(sql.Identifier(name), sql.SQL(operator))
            for name, operator in self.update_where.items()
        ]
        return sql.SQL("{} WHERE {}").format(update, sql.SQL(" AND ").join(conditions))

    def _delete(self, step: int) -> bytes:
        from psycopg import sql

        same = [sql.SQL("target.{0} = staged.{0}").format(sql.Identifier(name)) for name in self.key]
        if self.with_steps:
            same.append(sql.SQL("staged.{} = {}").format(sql.Identifier(self.step), step))
        return self._text(
            "DELETE FROM {table} AS target USING {staging} AS staged WHERE {same}", same=sql.SQL(" AND ").join(same)
        )


def _begin_statement(statement_timeout_ms: int) -> bytes:
    return statement("BEGIN; SET LOCAL statement_timeout = {limit}", limit=statement_timeout_ms)


def quote_names(of: Sequence[str]) -> sql.Composed:
    """Return quoted names, separated by commas."""
    from psycopg import sql

    return sql.SQL(", ").join([sql.Identifier(name) for name in of])


def assign_excluded(columns: Sequence[str]) -> sql.Composed:
    """Return assignments of the new row's values."""
    from psycopg import sql

    return sql.SQL(", ").join([sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns])


def statement(text: str, **parts: Any) -> bytes:
    """Return ``text`` with its parts filled in; values become literals."""
    from psycopg import sql

    return sql.SQL(text).format(**parts).as_bytes()
