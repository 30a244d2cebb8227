"""The statements of a Postgres sink. Names are quoted by psycopg; values travel in COPY, never in a statement."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamling.sinks._postgres_changes import Action
from streamling.sinks._postgres_table import Column, TableName

if TYPE_CHECKING:
    from psycopg import sql

#: the staging table's own column; no target has it, since `_gs_op` itself is not stored
STEP = "_gs_op"


@dataclass(frozen=True)
class Statements:
    """What is said to the server about one table."""

    table: TableName
    columns: Sequence[Column]
    key: Sequence[str]
    #: also when there is nothing but the key to write
    keep_existing: bool
    update_where: Mapping[str, str]
    statement_timeout_ms: int

    def begin(self, *, staging: bool) -> sql.Composed:
        """Open a transaction, in one message. The staging table is made when this server session has none yet:
        behind a pooler in transaction mode every transaction may meet another one."""
        statements = [
            self._sql("BEGIN"),
            self._sql("SET LOCAL statement_timeout = {}", self._literal(self.statement_timeout_ms)),
        ]
        if staging:
            statements.append(
                self._sql(
                    "CREATE TEMP TABLE IF NOT EXISTS {staging} ON COMMIT DELETE ROWS AS "
                    "SELECT {columns}, 0 AS {step} FROM {table} WITH NO DATA"
                )
            )
        return self._joined("; ", statements)

    def copy_rows(self) -> sql.Composed:
        """Straight into the table."""
        return self._sql("COPY {table} ({columns}) FROM STDIN (FORMAT csv)")

    def copy_staged(self, *, with_steps: bool) -> sql.Composed:
        """Into the staging table; the step comes last."""
        if with_steps:
            return self._sql("COPY {staging} ({columns}, {step}) FROM STDIN (FORMAT csv)")
        return self._sql("COPY {staging} ({columns}) FROM STDIN (FORMAT csv)")

    def apply(self, steps: Sequence[tuple[int, Action]], *, with_steps: bool) -> sql.Composed:
        """All steps and the commit, in one message."""
        statements = [
            (self._upsert if action == "write" else self._delete)(number if with_steps else None)
            for number, action in steps
        ]
        return self._joined("; ", [*statements, self.commit()])

    def commit(self) -> sql.Composed:
        return self._sql("COMMIT")

    def _upsert(self, step: int | None) -> sql.Composed:
        where = self._sql("") if step is None else self._sql(" WHERE {step} = {}", self._literal(step))
        return self._sql(
            "INSERT INTO {table} AS target ({columns}) SELECT {columns} FROM {staging}{} ON CONFLICT ({key}) {}",
            where,
            self._on_conflict(),
        )

    def _on_conflict(self) -> sql.Composed:
        values = [column.name for column in self.columns if column.name not in self.key]
        if self.keep_existing or not values:
            return self._sql("DO NOTHING")
        from psycopg import sql

        assignments = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in values]
        conditions = [
            # operators come from a closed list
            sql.SQL("excluded.{0} {1} target.{0}").format(sql.Identifier(name), sql.SQL(operator))
            for name, operator in self.update_where.items()
        ]
        update = self._sql("DO UPDATE SET {}", self._joined(", ", assignments))
        return self._sql("{} WHERE {}", update, self._joined(" AND ", conditions)) if conditions else update

    def _delete(self, step: int | None) -> sql.Composed:
        from psycopg import sql

        same = [sql.SQL("target.{0} = staged.{0}").format(sql.Identifier(name)) for name in self.key]
        if step is not None:
            same.append(self._sql("staged.{step} = {}", self._literal(step)))
        return self._sql(
            "DELETE FROM {table} AS target USING {staging} AS staged WHERE {}", self._joined(" AND ", same)
        )

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────────

    def _staging_name(self) -> str:
        """Other sinks may have left theirs in the same server session: one name for one shape."""
        shape = repr((self.table, [(column.name, column.type) for column in self.columns]))
        return f"streamling_{hashlib.sha256(shape.encode()).hexdigest()[:16]}"

    def _sql(self, text: str, *parts: sql.Composable) -> sql.Composed:
        from psycopg import sql

        names: dict[str, Any] = {
            "table": self.table.identifier(),
            "staging": sql.Identifier("pg_temp", self._staging_name()),
            "columns": sql.SQL(", ").join([sql.Identifier(column.name) for column in self.columns]),
            "key": sql.SQL(", ").join([sql.Identifier(name) for name in self.key]),
            "step": sql.Identifier(STEP),
        }
        return sql.SQL(text).format(*parts, **names)

    def _literal(self, number: int) -> sql.Composable:
        from psycopg import sql

        return sql.Literal(number)

    def _joined(self, separator: str, parts: Sequence[sql.Composable]) -> sql.Composed:
        from psycopg import sql

        return sql.SQL(separator).join(parts)
