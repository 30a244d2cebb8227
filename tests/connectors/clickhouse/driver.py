"""A database for one test, and a sink that is driven directly: rows in, table contents out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pyarrow as pa

from streamling.config import AppConfig
from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.config import ClickHouse as Settings
from streamling.connectors.clickhouse.server import Server
from streamling.connectors.clickhouse.sink import ClickHouseSink, ClickHouseSinkOptions
from streamling.pipeline.model import NodeKind
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState
from streamling.plugins.registry import Registry
from streamling.runtime.run import PipelineRun
from streamling.state.memory import MemoryState
from streamling.testing.harness import NoSpark, wait_for_end
from streamling.testing.nodes import BatchListSource
from tests.harness.services import ClickHouse

#: a row as a test writes it: operation, then values
Row = tuple[Any, ...]


class Database:
    """A database of a server."""

    def __init__(self, server: ClickHouse, name: str) -> None:
        self.name = name
        self.settings: dict[str, Any] = {
            "url": server.url,
            "user": server.user,
            "password": server.password,
            "database": name,
        }

    @classmethod
    @contextmanager
    def created(cls, server: ClickHouse) -> Iterator[Database]:
        """A new one, which is dropped at the end."""
        database = cls(server, f"test_{uuid4().hex}")
        everything = cls(server, server.database)
        everything.execute(f"CREATE DATABASE {database.name}")
        try:
            yield database
        finally:
            everything.execute(f"DROP DATABASE {database.name}")

    def client(self, **settings: Any) -> ClickHouseClient:
        config = Settings.model_validate({**self.settings, **settings})
        return ClickHouseClient(Server.of(config, "clickhouse_sink"), application_id="test", timeout=30)

    def execute(self, *statements: str) -> None:
        with self.client() as client:
            for statement in statements:
                client.execute(statement)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.client() as client:
            return [tuple(row.values()) for row in client.rows(sql)]

    def insert(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        """Insert Arrow data as it is."""
        output = pa.BufferOutputStream()
        with pa.ipc.new_stream(output, rows.schema) as writer:
            writer.write(rows)
        with self.client() as client:
            client.insert(
                f"INSERT INTO {table} FORMAT ArrowStream",
                output.getvalue().to_pybytes(),
                encoding=None,
                settings={"async_insert": "0"},
            )

    def types(self, table: str) -> dict[str, str]:
        """The types of a table's columns."""
        where = f"database = '{self.name}' AND table = '{table}'"
        return dict(self.rows(f"SELECT name, type FROM system.columns WHERE {where} ORDER BY position"))


class SinkDriver:
    """Writes to the table ``t`` of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.settings = dict(database.settings)

    def sink(
        self,
        schema: pa.Schema,
        *,
        key: Sequence[str] = ("id",),
        name: str = "out",
        context: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ClickHouseSink:
        fields = {"type": "clickhouse", "from": "in", "table": "t", "primary_key": ",".join(key), **options}
        return ClickHouseSink(
            NodeContext(
                **{
                    "name": name,
                    "options": ClickHouseSinkOptions.model_validate(fields),
                    "config": AppConfig(clickhouse_sink={**self.settings, **(config or {})}),
                    "state": UnavailableState("none here"),
                    "metrics": NoopMetrics(),
                    "primary_key": tuple(key),
                    "input_schema": schema,
                    **(context or {}),
                }
            )
        )

    @contextmanager
    def opened(self, schema: pa.Schema, **more: Any) -> Iterator[ClickHouseSink]:
        sink = self.sink(schema, **more)
        sink.open()
        try:
            yield sink
        finally:
            sink.close()

    def write(self, *batches: pa.RecordBatch, **more: Any) -> None:
        """Write all batches with one sink."""
        with self.opened(batches[0].schema, **more) as sink:
            for each in batches:
                sink.write(each)
            sink.flush()

    def rows(self, columns: str = "id, v", *, final: bool = True) -> list[tuple[Any, ...]]:
        """The rows of the table, by default as they are after all merges."""
        return self.database.rows(f"SELECT {columns} FROM t {'FINAL' if final else ''} ORDER BY ALL")


def batch(*rows: Row, names: Sequence[str] = ("id", "v"), types: Sequence[pa.DataType] | None = None) -> pa.RecordBatch:
    """Build rows of (operation, values…)."""
    types = types or [pa.int64(), *[pa.string()] * (len(names) - 1)]
    schema = pa.schema([*zip(names, types, strict=True), ("_gs_op", pa.string())])
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(values, type_) for values, type_ in zip(columns[1:], types, strict=True)]
    return pa.record_batch([*arrays, pa.array(columns[0], pa.string())], schema=schema)


def in_batches(changes: Sequence[Row], size: int) -> list[pa.RecordBatch]:
    return [batch(*changes[at : at + size]) for at in range(0, len(changes), size)]


# ── pipelines ───────────────────────────────────────────────────────────────────────────────────────────────


def started(
    driver: SinkDriver,
    batches: list[pa.RecordBatch],
    sinks: Mapping[str, Mapping[str, Any]],
    *,
    state: MemoryState | None = None,
    on_read: Callable[[int], object] = lambda number: None,
    ends: bool = True,
    **config: Any,
) -> PipelineRun:
    """A pipeline from given batches into ClickHouse, or other sinks; without Spark."""
    registry = Registry.builtin()
    given = {"batches": batches, "on_read": staticmethod(on_read), "bounded": ends}
    registry.register(NodeKind.SOURCE, "test.given", type("Given", (BatchListSource,), given))
    settings = AppConfig(**{"checkpoint_interval_sec": 0.05, "clickhouse_sink": driver.settings, **config})
    nodes = {
        "sources": {"given": {"type": "test.given", "primary_key": "id"}},
        "transforms": {},
        "sinks": {name: {"type": "clickhouse", "from": "given", "primary_key": "id", **s} for name, s in sinks.items()},
    }
    pipeline = parse_pipeline(json.dumps(nodes), registry=registry, config=settings)
    run = PipelineRun(pipeline, config=settings, registry=registry, state=state or MemoryState())
    run.analyse(NoSpark())  # type: ignore[arg-type]
    run.start()
    return run


def run(driver: SinkDriver, batches: list[pa.RecordBatch], sinks: Mapping[str, Mapping[str, Any]], **more: Any) -> None:
    """Run given batches into sinks, to the end."""
    wait_for_end(started(driver, batches, sinks, **more))
