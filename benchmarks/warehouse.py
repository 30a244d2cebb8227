"""The jobs of a worker that reads and writes ClickHouse tables, ours and hand-written."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks import records
from benchmarks.plugins import BatchesSource
from benchmarks.spent import measure_cost, run_to_its_end
from streamling.connectors.clickhouse.config import ClickHouseConfig
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: rows per insert, the default of our sink
BATCH = 100_000

_READ = """
sources:
  rows: {{type: clickhouse, table_name: {table}}}
transforms: {{}}
sinks:
  nowhere: {{type: blackhole, from: rows}}
"""
_WRITE = """
sources:
  rows: {{type: bench.batches, primary_key: id}}
transforms: {{}}
sinks:
  table: {{type: clickhouse, from: rows, table: {table}, primary_key: id}}
"""


@lru_cache(maxsize=1)
def _batches(session: SparkSession, count: int) -> list[pa.RecordBatch]:
    """Return the change records after their projection; both sides write the same ones."""
    return [rows.combine_chunks().to_batches()[0] for rows in records.tables(session, count, BATCH)]


class TablePipelines:
    """The jobs as streamling runs them."""

    def __init__(self, session: SparkSession, config: AppConfig) -> None:
        self._session = session
        self._config = config

    def read(self, table: str) -> dict[str, float]:
        return self._run(_READ.format(table=table), Registry.builtin())

    def insert(self, table: str, count: int) -> dict[str, float]:
        registry = Registry.builtin()
        source = type("Batches", (BatchesSource,), {"batches": _batches(self._session, count)})
        registry.register(NodeKind.SOURCE, "bench.batches", source)
        return self._run(_WRITE.format(table=table), registry)

    def _run(self, text: str, registry: Registry) -> dict[str, float]:
        return run_to_its_end(
            text, session=self._session, config=self._config, registry=registry, state=MemoryState()
        ).answer()


class TablesByHand:
    """The same jobs with clickhouse-connect and a bare loop."""

    def __init__(self, session: SparkSession, config: AppConfig) -> None:
        self._session = session
        self._config = config

    def fill(self, table: str, count: int) -> None:
        """Create ``table`` with ``count`` records."""
        columns = ", ".join(f"{name} {type_}" for name, type_ in records.CLICKHOUSE_COLUMNS.items())
        self._client.command(f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY id")
        self._client.command(f"INSERT INTO {table} {records.CLICKHOUSE_ROWS} FROM numbers({count})")

    def read(self, query: str) -> dict[str, float]:
        from benchmarks.twins import clickhouse

        with measure_cost() as spent:
            clickhouse.read(self._client, query)
        return spent.answer()

    def insert(self, table: str, count: int) -> dict[str, float]:
        from benchmarks.twins import clickhouse

        columns = ", ".join(f"{name} {type_}" for name, type_ in records.CLICKHOUSE_COLUMNS.items())
        clickhouse.create(self._client, table, columns)
        batches = _batches(self._session, count)
        with measure_cost() as spent:
            clickhouse.insert(*self._server, table, batches)
        return spent.answer()

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        return int(self._client.command(f"SELECT count() FROM {table}"))

    def drop(self, table: str) -> None:
        self._client.command(f"DROP TABLE {table}")

    @cached_property
    def _client(self) -> Any:
        from benchmarks.twins import clickhouse

        return clickhouse.connected(*self._server)

    @property
    def _server(self) -> tuple[str, str, str]:
        settings = self._config.part(ClickHouseConfig).clickhouse_source
        return settings.url, settings.user, settings.password.get_secret_value()
