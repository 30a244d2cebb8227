"""A database for one test, and a sink that is driven directly: rows in, table contents out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pyarrow as pa

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.config import ClickHouseSettings
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.clickhouse.sink import ClickHouseSink, ClickHouseSinkOptions
from streamling.dev.contracts.harness import BatchListSource
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.network.policy import ANY_ADDRESS
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from tests.connectors.sink_driver import Row, TableDriver, batch, sink_context
from tests.harness.pipelines import finish, start_run
from tests.harness.services import ClickHouse


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
        config = ClickHouseSettings.model_validate({**self.settings, **settings})
        return ClickHouseClient(
            ClickHouseServer.of(config, "clickhouse_sink", ANY_ADDRESS), application_id="test", timeout=30
        )

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


class SinkDriver(TableDriver):
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
        """``context`` replaces fields of the node's context, ``config`` settings of the section."""
        fields = {"type": "clickhouse", "from": "in", "table": "t", "primary_key": ",".join(key), **options}
        settings = AppConfig(clickhouse_sink={**self.settings, **(config or {})})
        checked = ClickHouseSinkOptions.model_validate(fields)
        return ClickHouseSink(sink_context(checked, settings, schema, key, **{"name": name, **(context or {})}))

    def rows(self, columns: str = "id, v", *, final: bool = True) -> list[tuple[Any, ...]]:
        """The rows of the table, by default as they are after all merges."""
        return self.database.rows(f"SELECT {columns} FROM t {'FINAL' if final else ''} ORDER BY ALL")


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
    return start_run(json.dumps(nodes), registry, config=settings, state=state)


def run(driver: SinkDriver, batches: list[pa.RecordBatch], sinks: Mapping[str, Mapping[str, Any]], **more: Any) -> None:
    """Run given batches into sinks, to the end."""
    finish(started(driver, batches, sinks, **more))
