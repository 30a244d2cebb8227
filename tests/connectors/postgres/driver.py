"""Drives a Postgres sink directly: rows in, table contents out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
from psycopg import sql

from streamling.connectors.postgres.sink import PostgresSink, PostgresSinkOptions
from streamling.pipeline.config import AppConfig
from tests.connectors.sink_driver import TableDriver, sink_context


class Driver(TableDriver):
    """One table in a separate schema."""

    def __init__(self, dsn: str, *, schema: str | None = None, **connection: Any) -> None:
        self.dsn = dsn
        self.schema = schema or f"schema_{uuid4().hex}"
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        settings = {"host": parts["host"], "port": int(parts["port"]), "user": parts["user"], "db": parts["dbname"]}
        self.settings: dict[str, Any] = {**settings, **connection}

    def sink(
        self,
        schema: pa.Schema,
        *,
        key: Sequence[str] = ("id",),
        name: str = "out",
        context: Mapping[str, Any] | None = None,
        connections: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> PostgresSink:
        """``context`` replaces fields of the node's context."""
        fields = {"type": "postgres", "from": "in", "schema": self.schema, "table": "t", **options}
        settings = AppConfig(postgres_sink=self.settings, postgres_sink_connections=connections or {})
        checked = PostgresSinkOptions.model_validate(fields)
        return PostgresSink(sink_context(checked, settings, schema, key, **{"name": name, **(context or {})}))

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """``{t}`` is replaced with the table, ``{s}`` with its schema."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            names: Mapping[str, Any] = {"t": sql.Identifier(self.schema, "t"), "s": sql.Identifier(self.schema)}
            cursor = connection.execute(sql.SQL(statement).format(**names), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def create(self, columns: str) -> None:
        """Create the table as a user would."""
        self.execute("CREATE SCHEMA IF NOT EXISTS {s}")
        self.execute(f"CREATE TABLE {{t}} ({columns})")

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        return self.execute(f"SELECT {columns} FROM {{t}} ORDER BY 1")

    def types(self) -> dict[str, str]:
        """Return column types as Postgres prints them."""
        return dict(
            self.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                f"{self.schema}.t",
            )
        )
