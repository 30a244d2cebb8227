"""Kafka → two SQL nodes that query tables in Postgres → Postgres, all of it real, restarted and edited from outside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.dev.services.topics import Message, produce
from tests.connectors.kafka.source_driver import Topic
from tests.harness.pipelines import Bench, eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]


def text(topic: str, schema: str) -> str:
    source = {"type": "kafka", "topic": topic, "primary_key": "id", "data_format": "json"}
    table = {"type": "dynamic_table", "backend_type": "Postgres", "schema": schema}
    sink = {"type": "postgres", "schema": schema}
    return json.dumps(
        {
            "sources": {"rows": {**source, "schema": {"id": "string", "v": "string"}}},
            "transforms": {
                "seen": {**table, "backend_entity_name": "seen", "sql": "SELECT v FROM rows"},
                "vip": {
                    **table,
                    "backend_entity_name": "vip",
                    "time_column": "updated_at",
                    "cache": True,
                    "cache_refresh_debounce_ms": 0,
                },
                "first_rows": {
                    "type": "sql",
                    "primary_key": "id",
                    "sql": "SELECT id, v FROM rows WHERE NOT dynamic_table_check('seen', v)",
                },
                "vip_rows": {
                    "type": "sql",
                    "primary_key": "id",
                    "sql": "SELECT id, dynamic_table_check('vip', v) AS vip FROM rows",
                },
            },
            "sinks": {
                "first": {**sink, "table": "first", "from": "first_rows"},
                "marked": {**sink, "table": "marked", "from": "vip_rows"},
            },
        }
    )


class Story(Bench):
    """One topic and the pipeline that reads it, started and stopped by the test."""

    def __init__(self, spark: Any, topic: Topic, schema: Any) -> None:
        super().__init__(spark)
        self._topic = topic
        self._schema = schema
        connection = {key: schema.settings[key] for key in ("host", "port", "user", "db")}
        self._settings = {
            "kafka_source": KafkaSourceSettings(brokers=topic.kafka.brokers, schema_registry_url=topic.url),
            "postgres_sink": connection,
            "dynamic_table_backend": {"postgres": schema.settings, "max_batch_size": 3},
        }
        self._sent = 0

    def send(self, *values: str) -> None:
        """Rows r1, r2, …"""
        rows = [{"id": f"r{self._sent + number}", "v": value} for number, value in enumerate(values, start=1)]
        self._sent += len(values)
        produce(self._topic.kafka.brokers, self._topic.name, [Message(json.dumps(row).encode()) for row in rows])

    def begin(self) -> Any:
        return self.start(text(self._topic.name, self._schema.name), **self._settings)

    def arrived(self, run: Any) -> None:
        """Wait until everything sent is in the sinks and final."""
        eventually(lambda: run.failure is not None or self._offset() == self._sent, 90)

    def end(self, run: Any) -> None:
        run.stop("the test has what it wants")
        finish(run)

    def rows(self, table: str, columns: str = "id") -> list[tuple[Any, ...]]:
        return self._schema.execute(f"SELECT {columns} FROM {{s}}.{table} ORDER BY id")

    def _offset(self) -> int:
        entries = self.state.get_prefix("").items()
        return next((value["offset"] for key, value in entries if key.endswith(f"{self._topic.name}:0")), 0)


def test_rows_are_looked_up_across_batches_restarts_and_edits_of_others(spark, kafka, registry, schema):
    story = Story(spark, Topic(kafka, registry), schema)
    story.send("a", "a", "b", "c", "d", "d")
    run = story.begin()
    try:
        story.arrived(run)
        assert story.rows("first") == [("r1",), ("r3",), ("r4",), ("r5",)]
        eventually(lambda: schema.execute("SELECT count(*) FROM {s}.seen") == [(4,)])
        # another program adds a to the important names, and removes b from the seen ones
        schema.execute("INSERT INTO {s}.vip (value) VALUES ('a')")
        schema.execute("DELETE FROM {s}.seen WHERE value = 'b'")
        story.send("a", "b", "b", "e")
        story.arrived(run)
    finally:
        story.end(run)
    assert story.rows("first") == [("r1",), ("r10",), ("r3",), ("r4",), ("r5",), ("r8",)]
    assert [id for id, vip in story.rows("marked", "id, vip") if vip] == ["r7"]

    run = story.begin()
    try:
        story.send("e", "a", "f")
        story.arrived(run)
    finally:
        story.end(run)
    assert story.rows("first") == [("r1",), ("r10",), ("r13",), ("r3",), ("r4",), ("r5",), ("r8",)]
    assert [id for id, vip in story.rows("marked", "id, vip") if vip] == ["r12", "r7"]
    values = schema.execute("SELECT value FROM {s}.seen ORDER BY 1")
    assert values == [(value,) for value in "abcdef"]
    assert not [key for key in story.state.get_prefix("") if key.startswith("dynamic_table:")]
