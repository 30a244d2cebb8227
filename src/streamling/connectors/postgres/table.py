"""The table that a Postgres sink writes to: created if missing, checked and extended if it exists."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from streamling.connectors.postgres.types import accepts, postgres_type
from streamling.errors import StreamlingError

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

#: Postgres silently truncates longer names
_LONGEST_NAME: Final = 63

_COLUMNS: Final = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(base.typname, t.typname),
           coalesce(base.typcategory, t.typcategory)::text
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_type base ON base.oid = nullif(t.typbasetype, 0)
    WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'f')
      AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
"""
#: columns of every index that ON CONFLICT can use; a view has no indexes
_UNIQUE: Final = """
    SELECT c.relkind::text, array_agg(a.attname::text) FILTER (WHERE a.attname IS NOT NULL)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisunique AND i.indisvalid
      AND i.indpred IS NULL AND i.indexprs IS NULL
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    WHERE n.nspname = %s AND c.relname = %s
    GROUP BY c.relkind, i.indexrelid
"""


@dataclass(frozen=True)
class TableName:
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    def identifier(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(self.schema, self.table)


@dataclass(frozen=True)
class TableColumn:
    """A column of the table."""

    name: str
    #: as users write it: ``character varying(10)``
    type: str
    #: internal name of the type, or of the type behind a domain: ``varchar``
    internal: str
    category: str


def check_names(name: TableName, columns: Sequence[str]) -> None:
    """Reject names that Postgres would truncate: two of them could become the same."""
    for what, text in [("schema", name.schema), ("table", name.table), *(("column", column) for column in columns)]:
        if (length := len(text.encode())) > _LONGEST_NAME:
            raise StreamlingError.user(
                f"the name of {what} '{text}' has {length} bytes, but Postgres allows at most {_LONGEST_NAME}",
                remedy="choose a shorter name; rename columns with AS in a sql transform",
            )


def prepare_table(
    connection: psycopg.Connection,
    name: TableName,
    fields: Sequence[pa.Field],
    key: Sequence[str],
    *,
    add_columns: bool | None,
    log: logging.Logger,
) -> dict[str, TableColumn]:
    """Make sure that the table accepts rows of ``fields``; return its columns by name. ``add_columns`` is None for a
    sink that never adds columns."""
    found = columns_of(connection, name)
    if not found:
        create_table(connection, name, [_definition(field, log) for field in fields], key)
        found = columns_of(connection, name)
    missing = [field for field in fields if field.name not in found]
    if missing and add_columns:
        _add(connection, name, missing, log)
        found = columns_of(connection, name)
    elif missing:
        raise _missing(name, missing, evolves=add_columns is not None)
    for field in fields:
        _check_type(name, field, found[field.name])
    if key:
        check_key(connection, name, key)
    return found


def columns_of(connection: psycopg.Connection, name: TableName) -> dict[str, TableColumn]:
    rows = connection.execute(_COLUMNS, (name.schema, name.table)).fetchall()
    return {row[0]: TableColumn(*row) for row in rows}


# ── creating ───────────────────────────────────────────────────────────────────────────────────────────────────


def create_table(
    connection: psycopg.Connection, name: TableName, columns: Sequence[sql.Composable], key: Sequence[str]
) -> None:
    """Create the table, and its schema if it does not exist; ``columns`` are column definitions."""
    import psycopg
    from psycopg import sql

    parts = list(columns)
    if key:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
    table = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(name.identifier(), sql.SQL(", ").join(parts))
    statements = [table]
    if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name.schema,)).fetchone():
        # a user who may create tables in a schema may lack the privilege to create schemas
        statements.insert(0, sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(name.schema)))
    for statement in statements:
        try:
            connection.execute(statement)
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject, psycopg.errors.DuplicateTable):
            continue  # IF NOT EXISTS is not atomic: another instance just created it


def _definition(field: pa.Field, log: logging.Logger) -> sql.Composed:
    from psycopg import sql

    type_ = postgres_type(field)
    if type_ is None:
        log.warning(
            "column '%s' of type %s has no matching Postgres type; it is stored as TEXT", field.name, field.type
        )
    # type names come from our own table, never from the user
    return sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(type_ or "TEXT"))


def _add(connection: psycopg.Connection, name: TableName, missing: Sequence[pa.Field], log: logging.Logger) -> None:
    from psycopg import sql

    additions = [sql.SQL("ADD COLUMN IF NOT EXISTS {}").format(_definition(field, log)) for field in missing]
    connection.execute(sql.SQL("ALTER TABLE {} {}").format(name.identifier(), sql.SQL(", ").join(additions)))
    log.info("table %s: added column %s", name, ", ".join(f"'{field.name}'" for field in missing))


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────


def _missing(name: TableName, missing: Sequence[pa.Field], *, evolves: bool) -> StreamlingError:
    names = ", ".join(f"'{field.name}' ({postgres_type(field) or 'TEXT'})" for field in missing)
    what = f"column {names}" if len(missing) == 1 else f"columns {names}"
    return StreamlingError.user(
        f"table {name} has no {what}",
        remedy=f"{'set `evolve: add_columns`, ' if evolves else ''}alter the table, or drop the column in a sql "
        "transform",
    )


def _check_type(name: TableName, field: pa.Field, column: TableColumn) -> None:
    if not accepts(field, column.internal, column.category):
        expected = postgres_type(field) or "TEXT"
        raise StreamlingError.user(
            f"column '{field.name}' of table {name} has type {column.type}, expected {expected} for values of type "
            f"{field.type}",
            remedy="alter the column's type, or cast the values in a sql transform",
        )


def check_key(
    connection: psycopg.Connection,
    name: TableName,
    key: Sequence[str],
    meaning: str = "the primary key of this sink",
    or_else: str = "set `primary_key` to the table's own key",
) -> None:
    rows = connection.execute(_UNIQUE, (name.schema, name.table)).fetchall()
    if rows[0][0] in ("r", "p") and not any(set(columns or ()) == set(key) for _, columns in rows):
        columns = ", ".join(key)
        raise StreamlingError.user(
            f"table {name} has no primary key or unique index on ({columns}), {meaning}",
            remedy=f"create a unique index on ({columns}), or {or_else}",
        )
