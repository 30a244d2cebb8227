"""Pipelines from a Kafka topic through SQL into Postgres tables, run until everything in the topic is committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import psycopg

from streamling.connectors.kafka.config import KafkaSinkSettings, KafkaSourceSettings
from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.postgres import LocalPostgres
from streamling.dev.services.registry import LocalRegistry
from streamling.dev.services.topics import consume
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import Topic
from tests.connectors.postgres.driver import Driver
from tests.harness.pipelines import Bench, eventually, finish

#: a sink of the tests: what to select from ``rows``, or nothing for a sink directly behind the source, and its fields
Sinks = Mapping[str, Mapping[str, Any]]


class Flagship(Bench):
    """One source, ``rows``; a Postgres sink per table, each behind a SQL node of its own when it has ``sql``."""

    def __init__(self, spark: Any, kafka: LocalKafka, registry: LocalRegistry, postgres: LocalPostgres) -> None:
        super().__init__(spark)
        self.kafka = kafka
        self._registry_service = registry
        self.pg = Driver(postgres.dsn)

    def topic(self) -> Topic:
        return Topic(self.kafka, self._registry_service)

    def text(self, topic: Topic, sinks: Sinks, source: Mapping[str, Any]) -> str:
        nodes: dict[str, dict[str, Any]] = {"sources": {}, "transforms": {}, "sinks": {}}
        nodes["sources"]["rows"] = {"type": "kafka", "topic": topic.name, "primary_key": "id", **source}
        for name, fields in sinks.items():
            own = dict(fields)
            sql, key = own.pop("sql", None), own.pop("key", "id")
            if sql:
                nodes["transforms"][f"{name}_rows"] = {"type": "sql", "primary_key": key, "sql": sql}
            place = {"schema": self.pg.schema, "table": name} if own.get("type", "postgres") == "postgres" else {}
            node = {"type": "postgres", "from": f"{name}_rows" if sql else "rows", **place, **own}
            nodes["sinks"][name] = node
        return json.dumps(nodes)

    def begin(
        self, topic: Topic, sinks: Sinks, source: Mapping[str, Any] | None = None, **settings: Any
    ) -> PipelineRun:
        return self.start(self.text(topic, sinks, source or {}), **self.config(**settings))

    def config(self, **settings: Any) -> dict[str, Any]:
        services = {"brokers": self.kafka.brokers, "schema_registry_url": self._registry_service.url}
        return {
            "kafka_source": KafkaSourceSettings(**services),
            "kafka_sink": KafkaSinkSettings(**services),
            "postgres_sink": self.pg.settings,
            **settings,
        }

    def begin_each(self, topics: Mapping[str, Topic], **sink: Any) -> PipelineRun:
        """One pipeline in which every topic has a table of its own, under the same name."""
        sources = {name: {"type": "kafka", "topic": topic.name, "primary_key": "id"} for name, topic in topics.items()}
        place = {"type": "postgres", "schema": self.pg.schema, **sink}
        sinks = {f"to_{name}": {"from": name, "table": name, **place} for name in topics}
        return self.start(json.dumps({"sources": sources, "transforms": {}, "sinks": sinks}), **self.config())

    def run_all(self, topic: Topic, sinks: Sinks, source: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Until every message of the topic is committed, then stop."""
        run = self.begin(topic, sinks, source, **settings)
        try:
            self.committed(run, topic)
        finally:
            run.stop("the test has what it wants")
            finish(run)

    def failure(self, topic: Topic, sinks: Sinks, **settings: Any) -> StreamlingError:
        """How a pipeline ends that nobody stops."""
        try:
            finish(self.begin(topic, sinks, **settings))
        except StreamlingError as error:
            return error
        raise AssertionError("the pipeline ended well")

    def committed(self, run: PipelineRun, *topics: Topic) -> None:
        """Wait until the stored positions are the ends of the topics, or the run has failed."""
        ends = {topic: sum(1 for _ in consume(self.kafka.brokers, topic.name)) for topic in topics}

        def reached() -> bool:
            return all(self.position(topic) == end for topic, end in ends.items())

        eventually(lambda: run.failure is not None or reached(), 60)

    def position(self, topic: Topic) -> int:
        """The stored offset of the topic's one partition; 0 when none is stored."""
        assert isinstance(self.state, MemoryState)
        found = [value for key, value in self.state.get_prefix("").items() if key.endswith(f":{topic.name}:0")]
        return int(found[0]["offset"]) if found else 0

    def table(self, name: str, columns: str = "*", *, db: str | None = None) -> list[tuple[Any, ...]]:
        """Rows of a table, in the order of the first column."""
        with psycopg.connect(self.pg.dsn, **({"dbname": db} if db else {})) as connection:
            query = f'SELECT {columns} FROM "{self.pg.schema}"."{name}" ORDER BY 1'
            return connection.execute(query.encode()).fetchall()
