"""Upserts into Postgres with psycopg alone: COPY into a staging table, INSERT … ON CONFLICT from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

_STAGING = sql.Identifier("staging")


def text_of(rows: pa.Table) -> bytes:
    """Return the rows in COPY's format."""
    output = pa.BufferOutputStream()
    csv.write_csv(rows, output, csv.WriteOptions(include_header=False))
    return bytes(output.getvalue())


def connected(**server: Any) -> psycopg.Connection:
    return psycopg.connect(**server, autocommit=True)


def create(connection: psycopg.Connection, table: str, columns: Mapping[str, str]) -> None:
    """Create a table with these columns and types if it does not exist."""
    defined = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in columns.items()]
    connection.execute(
        sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(sql.Identifier(table), sql.SQL(", ").join(defined))
    )


def upsert(connection: psycopg.Connection, table: str, columns: Sequence[str], pieces: Sequence[bytes]) -> None:
    """Each chunk of text is one transaction; the first column is the key."""
    names = {
        "table": sql.Identifier(table),
        "staging": _STAGING,
        "columns": sql.SQL(", ").join(map(sql.Identifier, columns)),
        "key": sql.Identifier(columns[0]),
        "news": sql.SQL(", ").join(
            [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns[1:]]
        ),
    }
    connection.execute(sql.SQL("CREATE TEMP TABLE {staging} (LIKE {table}) ON COMMIT DELETE ROWS").format(**names))
    copy = sql.SQL("COPY {staging} ({columns}) FROM STDIN (FORMAT csv)").format(**names)
    merge = sql.SQL(
        "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging} ON CONFLICT ({key}) DO UPDATE SET {news}"
    ).format(**names)
    for piece in pieces:
        with connection.transaction(), connection.cursor() as cursor:
            with cursor.copy(copy) as copying:
                copying.write(piece)
            cursor.execute(merge)
