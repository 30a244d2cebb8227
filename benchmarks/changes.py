"""The jobs of a worker that reads change records from Kafka, ours and hand-written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks import records
from benchmarks.plugins import ChangesSource, DropSink, SlowSink
from benchmarks.spent import Cost, measure_cost, run_to_its_end
from streamling.connectors.kafka.config import KafkaConfig
from streamling.connectors.postgres.config import PostgresConfig
from streamling.engine.state.memory import MemoryState
from streamling.network.policy import ANY_ADDRESS
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: rows per batch for rows that reach Python, as our own sinks get them
BATCH = 200_000

_PIPELINE = """
sources:
  changes: {{type: bench.changes, topic: {topic}, records: {records}, primary_key: id}}
transforms:
  shaped: {{type: sql, primary_key: id, sql: "SELECT {columns} FROM changes WHERE {condition}"}}
sinks:
  rows: {sink}
"""


class ChangePipelines:
    """The jobs as streamling runs them."""

    def __init__(self, session: SparkSession, config: AppConfig) -> None:
        self._session = session
        self._config = config
        self._moments: list[tuple[float, int]] = []

    def to_nowhere(self, topic: str, count: int, headers: bool, condition: str = "true") -> dict[str, float]:
        return self._run(topic, count, "{type: blackhole, from: shaped}", condition)

    def to_arrow(self, topic: str, count: int, observed: str) -> list[tuple[float, int]]:
        """Return the moments of the start and after each batch, with the next offset."""
        self._run(topic, count, "{type: bench.drop, from: shaped}", observed=observed)
        return self._moments

    def to_postgres(self, topic: str, count: int, table: str) -> dict[str, float]:
        return self._run(topic, count, f"{{type: postgres, from: shaped, schema: public, table: {table}}}")

    def to_clickhouse(self, topic: str, count: int, table: str) -> dict[str, float]:
        return self._run(topic, count, f"{{type: clickhouse, from: shaped, table: {table}, primary_key: id}}")

    def to_slow_sink(self, topic: str, count: int, seconds: float) -> dict[str, float]:
        return self._run(topic, count, f"{{type: bench.slow, from: shaped, seconds: {seconds}}}")

    def _run(self, topic: str, count: int, sink: str, condition: str = "true", observed: str = "") -> dict[str, float]:
        moments: list[tuple[float, int]] = []
        self._moments = moments
        changes = type("Changes", (ChangesSource,), {"on_batch": staticmethod(lambda *moment: moments.append(moment))})
        registry = Registry.builtin()
        registry.register(NodeKind.SOURCE, "bench.changes", changes)
        registry.register(NodeKind.SINK, "bench.slow", SlowSink)
        registry.register(NodeKind.SINK, "bench.drop", DropSink)
        columns = ", ".join(records.COLUMNS)
        text = _PIPELINE.format(topic=topic, records=count, columns=columns, condition=condition, sink=sink)
        # a separate consumer group: that of the previous run has read everything
        config = self._config.model_copy(update={"application_id": f"bench_{uuid4().hex[:8]}"})
        spent = run_to_its_end(
            text, session=self._session, config=config, registry=registry, state=MemoryState(), observed=observed
        )
        return spent.answer()


class ChangesByHand:
    """The same jobs in plain PySpark and psycopg."""

    def __init__(self, session: SparkSession, config: AppConfig) -> None:
        self._session = session
        self._config = config

    def fill(self, topic: str, count: int, headers: bool) -> None:
        """Create ``topic`` and its schema, and write ``count`` records."""
        from streamling.connectors.kafka.registry import SchemaRegistry
        from streamling.dev.services.topics import create_topic

        create_topic(self._brokers, topic)
        registry = SchemaRegistry.of(self._config.part(KafkaConfig).kafka_source, "kafka_source", ANY_ADDRESS)
        id = registry.register(f"{topic}-value", records.SCHEMA)
        records.write_topic(self._session, self._brokers, topic, id, count, headers=headers)

    def to_nowhere(self, topic: str, count: int, headers: bool, condition: str = "true") -> dict[str, float]:
        from benchmarks.twins import kafka

        job = (self._session, self._brokers, topic, json.dumps(records.SCHEMA), headers, records.COLUMNS, condition)
        with measure_cost() as spent:
            kafka.to_nowhere(*job)
        return spent.answer()

    def read_only(self, topic: str, count: int) -> dict[str, float]:
        from benchmarks.twins import kafka

        with measure_cost() as spent:
            kafka.read_only(self._session, self._brokers, topic, count)
        return spent.answer()

    def to_postgres(self, count: int, table: str) -> dict[str, float]:
        """Return the same rows, prepared as text in memory."""
        from benchmarks.twins import postgres

        pieces = [postgres.text_of(rows) for rows in records.tables(self._session, count, BATCH)]
        spent = Cost()
        with postgres.connected(**self._server()) as connection:
            postgres.create(connection, table, records.POSTGRES_COLUMNS)
            with measure_cost() as spent:
                postgres.upsert(connection, table, list(records.POSTGRES_COLUMNS), pieces)
        return spent.answer()

    @property
    def _brokers(self) -> str:
        return self._config.part(KafkaConfig).kafka_source.brokers

    def _server(self) -> dict[str, Any]:
        settings = self._config.part(PostgresConfig).postgres_sink
        return {"host": settings.host, "port": settings.port, "user": settings.user, "dbname": settings.db}
