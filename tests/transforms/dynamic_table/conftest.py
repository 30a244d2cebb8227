"""A separate schema on the real server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from streamling.dev.services.postgres import LocalPostgres


class Schema:
    """The content of the database, as another program sees and changes it."""

    def __init__(self, server: LocalPostgres, connection: psycopg.Connection) -> None:
        self.name = f"tables_{uuid4().hex[:12]}"
        self.settings: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": server.port,
            "db": "postgres",
            "user": "postgres",
            "sslmode": "disable",
            "dt_schema_name": self.name,
        }
        self._connection = connection

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """``{s}`` is replaced with the schema, ``{t}`` with the table ``t`` in it."""
        names = {"s": sql.Identifier(self.name), "t": sql.Identifier(self.name, "t")}
        cursor = self._connection.execute(sql.SQL(statement).format(**names), parameters or None)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def create(self, columns: str) -> None:
        """Create a table as another program would."""
        self.execute("CREATE SCHEMA IF NOT EXISTS {s}")
        self.execute(f"CREATE TABLE {{t}} ({columns})")

    def values(self) -> list[str]:
        return [value for (value,) in self.execute("SELECT value FROM {t} ORDER BY value")]


@pytest.fixture
def schema(postgres: LocalPostgres) -> Iterator[Schema]:
    dsn = f"host=127.0.0.1 port={postgres.port} dbname=postgres user=postgres"
    with psycopg.connect(dsn, autocommit=True) as connection:
        made = Schema(postgres, connection)
        yield made
        made.execute("DROP SCHEMA IF EXISTS {s} CASCADE")
