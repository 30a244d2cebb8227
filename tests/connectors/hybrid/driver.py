"""Tables and topics that continue them, and pipelines that read both, for the tests of the hybrid source."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamling.connectors.clickhouse.client import ClickHouseClient
from streamling.connectors.clickhouse.config import ClickHouseSourceSettings
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.connectors.memory import collected_rows
from streamling.engine.run.run import PipelineRun
from streamling.network.policy import ANY_ADDRESS
from tests.connectors.kafka.source_driver import Topic, record, rows_in
from tests.harness.pipelines import Bench, eventually, finish
from tests.harness.services import ClickHouse

_databases = itertools.count(1)

ORDERS = record("id", ("name", ["null", "string"], None))


class Database:
    """A database of its own in ClickHouse."""

    def __init__(self, clickhouse: ClickHouse, name: str | None = None) -> None:
        self.name = name or f"hybrid_{next(_databases)}"
        self.clickhouse = clickhouse
        self.execute(f"CREATE DATABASE IF NOT EXISTS {self.name}", database="default")

    def settings(self, **more: Any) -> ClickHouseSourceSettings:
        server = {"url": self.clickhouse.url, "user": self.clickhouse.user, "password": self.clickhouse.password}
        return ClickHouseSourceSettings(**{**server, "database": self.name, **more})

    def variables(self) -> dict[str, str]:
        """The environment of a command that reads from it."""
        named = self.clickhouse
        server = {"URL": named.url, "USER": named.user, "PASSWORD": named.password, "DATABASE": self.name}
        return {f"STREAMLING__CLICKHOUSE_SOURCE__{name}": value for name, value in server.items()}

    def server(self, database: str | None = None) -> ClickHouseServer:
        return ClickHouseServer.of(self.settings(database=database or self.name), "clickhouse_source", ANY_ADDRESS)

    def execute(self, *statements: str, database: str | None = None) -> None:
        with ClickHouseClient(self.server(database), application_id="tests", timeout=60) as client:
            for statement in statements:
                client.execute(statement)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with ClickHouseClient(self.server(), application_id="tests", timeout=60) as client:
            return client.rows(sql)

    def orders(self, table: str, first: int, count: int, name: str = "old") -> None:
        """A table of orders, created if it does not exist."""
        self.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (id UInt64, name Nullable(String)) ENGINE = MergeTree ORDER BY id",
            f"INSERT INTO {table} SELECT number + {first}, '{name}' FROM numbers({count})",
        )

    def offsets(self, offsets: Mapping[tuple[str, int], int], table: str = "kafka_offsets") -> None:
        """A table of the offsets up to which topics have been loaded, created if it does not exist."""
        values = ", ".join(f"('{topic}', {partition}, {offset})" for (topic, partition), offset in offsets.items())
        self.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (topic String, partition Int32, offset UInt32) "
            "ENGINE = MergeTree ORDER BY (topic, partition)",
            *([f"INSERT INTO {table} VALUES {values}"] if values else []),
        )


class HybridBench(Bench):
    """Pipelines with one hybrid source, ``orders``, and one memory sink, ``out``."""

    def __init__(self, spark: Any, kafka: Any, registry: Any, clickhouse: ClickHouse) -> None:
        super().__init__(spark)
        self.kafka = kafka
        self.registry_service = registry
        self.database = Database(clickhouse)
        #: settings of `clickhouse_source` and of the whole configuration
        self.reading: dict[str, Any] = {}
        self.config: dict[str, Any] = {}

    def topic(self, **how: Any) -> Topic:
        return Topic(self.kafka, self.registry_service, **how)

    def source(self, topic: Topic, *tables: str | Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """The node: ``tables`` are names or fields of bounded phases, ``unbounded`` has more fields of the topic."""
        phases = [{"table_name": table} if isinstance(table, str) else table for table in tables]
        unbounded = {"source_type": "kafka", "topic": topic.name, **options.pop("unbounded", {})}
        return {
            "type": "hybrid",
            "primary_key": "id",
            "bounded_sources": [{"source_type": "clickhouse", **phase} for phase in phases],
            "unbounded_source": unbounded,
            **options,
        }

    def text(self, source: Mapping[str, Any], sql: str | None = None) -> str:
        transforms = {"shaped": {"type": "sql", "primary_key": "id", "sql": sql}} if sql else {}
        sinks: dict[str, Any] = {"out": {"type": "memory", "from": "shaped" if sql else "orders"}}
        if "errors" in source:
            sinks["bad"] = {"type": "memory"}
        return json.dumps({"sources": {"orders": source}, "transforms": transforms, "sinks": sinks})

    def prepare(self, text: str, **settings: Any) -> PipelineRun:  # type: ignore[override]
        services = {
            "kafka_source": KafkaSourceSettings(
                brokers=self.kafka.brokers, schema_registry_url=self.registry_service.url, lag_report_interval_ms=500
            ),
            "clickhouse_source": self.database.settings(**self.reading),
        }
        return super().prepare(text, **{**services, **self.config, **settings})

    def begin(self, topic: Topic, *tables: str | Mapping[str, Any], sql: str | None = None, **options: Any):
        return self.start(self.text(self.source(topic, *tables, **options), sql))

    @contextmanager
    def running(self, topic: Topic, *tables: Any, **options: Any) -> Iterator[PipelineRun]:
        run = self.begin(topic, *tables, **options)
        try:
            yield run
        finally:
            stop(run)

    def read(self, topic: Topic, *tables: Any, count: int, **options: Any) -> list[dict[str, Any]]:
        """Run until ``count`` rows have been collected, then drain; all rows that were."""
        with self.running(topic, *tables, **options) as run:
            arrived(run, count)
        return collected_rows(run, "out").to_pylist()

    def job(self, topic: Topic, *tables: Any, **options: Any) -> list[dict[str, Any]]:
        """Run in job mode to the end; all rows that were collected."""
        self.config["job_mode"] = True
        run = self.begin(topic, *tables, **options)
        finish(run)
        return collected_rows(run, "out").to_pylist()


def arrived(run: PipelineRun, count: int) -> None:
    eventually(lambda: run.failure is not None or rows_in(run) >= count, 60)


def stop(run: PipelineRun) -> None:
    run.stop("the test has what it wants")
    finish(run)
