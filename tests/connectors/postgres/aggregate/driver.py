"""Drives a Postgres aggregate sink directly: rows in, aggregates out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
from psycopg import sql

from streamling.connectors.postgres.aggregate.sink import PostgresAggregateSink, PostgresAggregateSinkOptions
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.plugins.rejects import RejectedRows

FIELDS: Mapping[str, Any] = {
    "landing_table": "log",
    "agg_table": "totals",
    "group_by": {"account": {}},
    "aggregate": {"balance": {"from": "amount", "fn": "sum"}},
}
TYPES = {"id": pa.int64(), "account": pa.string(), "amount": pa.int64()}

#: a row as a test writes it: operation, then values
Row = tuple[Any, ...]


def transfers(*rows: Row, types: Mapping[str, pa.DataType] = TYPES) -> pa.RecordBatch:
    """Build rows of (operation, values…)."""
    schema = pa.schema([*types.items(), ("_gs_op", pa.string())])
    operations, *columns = zip(*rows, strict=True)
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, types.values(), strict=True)]
    return pa.record_batch([*arrays, pa.array(operations, pa.string())], schema=schema)


class Aggregate:
    """Both tables in a separate schema, and the state, which outlive a sink."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.schema = f"schema_{uuid4().hex}"
        self.state = MemoryState()
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        self.settings = {
            "host": parts["host"],
            "port": int(parts["port"]),
            "user": parts["user"],
            "db": parts["dbname"],
        }

    @property
    def log(self) -> str:
        """Return the landing table as Postgres prints it."""
        return f"{self.schema}.log"

    def sink(
        self,
        schema: pa.Schema,
        *,
        key: Sequence[str] = ("id",),
        rejected_rows: RejectedRows | None = None,
        **options: Any,
    ) -> PostgresAggregateSink:
        fields = {"type": "postgres_aggregate", "from": "in", "schema": self.schema, **FIELDS, **options}
        return PostgresAggregateSink(
            NodeContext(
                name="out",
                options=PostgresAggregateSinkOptions.model_validate(fields),
                config=AppConfig(postgres_sink=self.settings),
                state=self.state,
                metrics=NoopMetrics(),
                primary_key=tuple(key),
                input_schema=schema,
                rejected_rows=rejected_rows,
            )
        )

    def opened(self, schema: pa.Schema | None = None, **more: Any) -> Running:
        return Running(self, self.sink(schema or transfers(("i", 0, "", 0)).schema, **more))

    def write(self, *batches: pa.RecordBatch, **more: Any) -> None:
        """Write all batches with one sink, in one epoch that becomes final."""
        with self.opened(batches[0].schema, **more) as running:
            running.write(*batches)
            running.finish(1)

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """``{log}`` and ``{totals}`` are replaced with the tables, ``{s}`` with their schema."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            tables = {name: sql.Identifier(self.schema, name) for name in ("log", "totals")}
            composed = sql.SQL(statement).format(s=sql.Identifier(self.schema), **tables)
            cursor = connection.execute(composed, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def totals(self, columns: str = "*") -> list[tuple[Any, ...]]:
        return self.execute(f"SELECT {columns} FROM {{totals}} ORDER BY 1")

    def landed(self) -> list[tuple[Any, ...]]:
        """Return key and operation of the rows in the landing table."""
        return self.execute("SELECT id, _gs_op FROM {log} ORDER BY 1, 2")

    def columns(self, table: str) -> dict[str, str]:
        """Return definitions as Postgres prints them."""
        rows = self.execute(
            "SELECT a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod),"
            " CASE WHEN a.attnotnull THEN 'not null' END, 'default ' || pg_get_expr(d.adbin, d.adrelid))"
            " FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
            " WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            f"{self.schema}.{table}",
        )
        return dict(rows)


class Running:
    """An open sink. `crash` leaves behind what a process that dies does: nothing more is flushed or stored."""

    def __init__(self, place: Aggregate, sink: PostgresAggregateSink) -> None:
        self._place = place
        self.sink = sink

    def __enter__(self) -> Running:
        self.sink.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.close()

    crash = __exit__

    def write(self, *batches: pa.RecordBatch) -> None:
        for batch in batches:
            self.sink.write(batch)

    def acknowledged(self, epoch: int) -> dict[str, Any]:
        """Return what the sink stores with the positions of ``epoch``."""
        entries: dict[str, Any] = {}
        self.sink.marker(epoch, lambda more={}: entries.update(more))
        return entries

    def stored(self, epoch: int) -> None:
        """Store the positions of ``epoch``, without notifying the sink yet."""
        self._place.state.put_many(self.acknowledged(epoch))

    def finish(self, epoch: int) -> None:
        self.stored(epoch)
        self.sink.finalized(epoch)
