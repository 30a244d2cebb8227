"""Drives a Postgres sink directly: rows in, table contents out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
from psycopg import sql

from streamling.config import AppConfig
from streamling.connectors.postgres.sink import PostgresSink, PostgresSinkOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState

#: a row as a test writes it: operation, then values
Row = tuple[Any, ...]


class Driver:
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
        stopping: Any = None,
        connections: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> PostgresSink:
        fields = {"type": "postgres", "from": "in", "schema": self.schema, "table": "t", **options}
        more = {} if stopping is None else {"stopping": stopping}
        return PostgresSink(
            NodeContext(
                name=name,
                options=PostgresSinkOptions.model_validate(fields),
                config=AppConfig(postgres_sink=self.settings, postgres_sink_connections=connections or {}),
                state=UnavailableState("none here"),
                metrics=NoopMetrics(),
                primary_key=tuple(key),
                input_schema=schema,
                **more,
            )
        )

    @contextmanager
    def opened(self, schema: pa.Schema, **more: Any):
        sink = self.sink(schema, **more)
        try:
            sink.open()
            yield sink
        finally:
            sink.close()

    def write(self, *batches: pa.RecordBatch, **more: Any) -> None:
        """Write all batches with one sink."""
        with self.opened(batches[0].schema, **more) as sink:
            for batch in batches:
                sink.write(batch)
            sink.flush()

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


def batch(*rows: Row, names: Sequence[str] = ("id", "v"), types: Sequence[pa.DataType] | None = None) -> pa.RecordBatch:
    """Build rows of (operation, values…)."""
    types = types or [pa.int64(), *[pa.string()] * (len(names) - 1)]
    schema = pa.schema([*zip(names, types, strict=True), ("_gs_op", pa.string())])
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(values, type_) for values, type_ in zip(columns[1:], types, strict=True)]
    return pa.record_batch([*arrays, pa.array(columns[0], pa.string())], schema=schema)
