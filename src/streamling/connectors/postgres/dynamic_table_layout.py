"""The Postgres table behind a dynamic table: created if missing, checked if it exists."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streamling.errors import StreamlingError

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

#: Postgres silently truncates longer names
_LONGEST_NAME: Final = 63
_COLUMNS: Final = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(base.typcategory, t.typcategory)::text,
           EXISTS (
               SELECT FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod
               WHERE m.amname = 'btree' AND o.opcintype = coalesce(nullif(t.typbasetype, 0), t.oid)
           )
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_type base ON base.oid = nullif(t.typbasetype, 0)
    WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
_TEXT_CATEGORY: Final = "S"
#: time column of a table that we create, if the pipeline file names none
_TIME_COLUMN: Final = "updated_at"


@dataclass(frozen=True)
class DynamicTableLayout:
    """Names of a table and its columns. ``time_column`` is None if it is not needed."""

    schema: str
    table: str
    column: str
    time_column: str | None

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    def check_names(self) -> None:
        """Reject names that Postgres would truncate."""
        for what, name in [
            ("schema", self.schema),
            ("backend_entity_name", self.table),
            ("column", self.column),
            ("time_column", self.time_column or ""),
        ]:
            if (length := len(name.encode())) > _LONGEST_NAME:
                raise StreamlingError.user(
                    f"`{what}` is '{name}', a name of {length} bytes, but Postgres allows at most {_LONGEST_NAME}",
                    remedy="choose a shorter name",
                )

    def format_sql(self, statement: str) -> sql.Composed:
        """Return ``statement`` with ``{table}``, ``{column}``, ``{time}``, ``{schema}`` and ``{index}`` filled in."""
        from psycopg import sql

        time_column = self.time_column or _TIME_COLUMN
        return sql.SQL(statement).format(
            schema=sql.Identifier(self.schema),
            table=sql.Identifier(self.schema, self.table),
            column=sql.Identifier(self.column),
            time=sql.Identifier(time_column),
            index=sql.Identifier(index_name(self.table, time_column)),
        )


def index_name(table: str, time_column: str) -> str:
    """Return ``idx_{table}_{time_column}``; a name too long for Postgres ends in a hash of the full name."""
    name = f"idx_{table}_{time_column}"
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    suffix = f"_{_fnv1a(name.encode()):016x}"
    return name.encode()[: _LONGEST_NAME - len(suffix)].decode(errors="ignore") + suffix


def exists(connection: psycopg.Connection, layout: DynamicTableLayout) -> bool:
    """Return whether the table exists."""
    return bool(_columns(connection, layout))


def prepare(connection: psycopg.Connection, layout: DynamicTableLayout, *, cached: bool) -> None:
    """Create the table if it does not exist; reject an existing table that does not fit."""
    import psycopg

    found = _columns(connection, layout)
    if not found:
        # another process may create it at the same moment: IF NOT EXISTS is not atomic
        with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
            _create(connection, layout)
        found = _columns(connection, layout)
    _check(found, layout, cached)


def _check(found: dict[str, tuple[str, str, bool]], layout: DynamicTableLayout, cached: bool) -> None:
    listed = ", ".join(found)
    if layout.column not in found:
        raise StreamlingError.user(
            f"table {layout} has no column '{layout.column}' for the values, only ({listed})",
            remedy="name the column with `column`",
        )
    type_, category, _ = found[layout.column]
    if category != _TEXT_CATEGORY:
        raise StreamlingError.user(
            f"column '{layout.column}' of table {layout} has type {type_}, but values are text",
            remedy="change the column's type to TEXT, or name another column with `column`",
        )
    if not cached:
        return
    remedy = "correct `time_column`, or set `cache: false`"
    if layout.time_column not in found:
        raise StreamlingError.user(
            f"table {layout} has no column '{layout.time_column}', which the cache needs to detect new values, only "
            f"({listed})",
            remedy=remedy,
        )
    type_, _, ordered = found[layout.time_column or ""]
    if not ordered:
        raise StreamlingError.user(
            f"column '{layout.time_column}' of table {layout} has type {type_}, which has no order, so the cache "
            "cannot detect new values with it",
            remedy=remedy,
        )


def _columns(connection: psycopg.Connection, layout: DynamicTableLayout) -> dict[str, tuple[str, str, bool]]:
    """Return type, type category and whether the type is ordered, by column."""
    rows = connection.execute(_COLUMNS, (layout.schema, layout.table)).fetchall()
    return {name: (type_, category, ordered) for name, type_, category, ordered in rows}


def _create(connection: psycopg.Connection, layout: DynamicTableLayout) -> None:
    with connection.transaction():
        connection.execute(layout.format_sql("CREATE SCHEMA IF NOT EXISTS {schema}"))
        connection.execute(
            layout.format_sql(
                "CREATE TABLE IF NOT EXISTS {table} ({column} TEXT PRIMARY KEY, "
                "{time} TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())"
            )
        )
        connection.execute(layout.format_sql("CREATE INDEX IF NOT EXISTS {index} ON {table} ({time})"))


def _fnv1a(data: bytes) -> int:
    """Return 64-bit FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
