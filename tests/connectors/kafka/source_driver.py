"""Topics with rows in them, and pipelines that read them, for the tests of the Kafka source."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer

from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.connectors.memory import collected_rows
from streamling.dev.services.avro import SchemaRegistry, decode
from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.registry import LocalRegistry
from streamling.dev.services.topics import Message, consume, create_topic, produce
from tests.harness.pipelines import Bench, eventually, finish

_numbers = itertools.count(1)

#: for tests of what works in the same way for every `latency` of the source
at_any_latency = pytest.mark.parametrize("latency", ["standard", "realtime"])

#: keeps the order without waiting half a second for the id of an idempotent producer
_ONE_REQUEST_AT_A_TIME = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}

ORDERS = {
    "type": "record",
    "name": "order",
    "doc": json.dumps({"primaryKeys": ["id"]}),
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}],
}


def record(*fields: Any, **extra: Any) -> dict[str, Any]:
    """Return a record schema with these fields: names (of longs), or pairs of name and type, or triples with a
    default."""
    made = []
    for field in fields:
        name, type_, *default = (field, "long") if isinstance(field, str) else field
        made.append({"name": name, "type": type_, **({"default": default[0]} if default else {})})
    return {"type": "record", "name": "row", "fields": made, **extra}


class Topic:
    """A separate topic with a subject in the registry."""

    def __init__(self, kafka: LocalKafka, registry: LocalRegistry, name: str | None = None, partitions: int = 1):
        self.kafka = kafka
        self.url = registry.url
        self.registry = SchemaRegistry(registry.url)
        self.name = name or f"topic-{next(_numbers)}"
        create_topic(kafka.brokers, self.name, partitions=partitions)

    def register(self, schema: Any) -> int:
        return self.registry.register(f"{self.name}-value", schema)

    def write(self, schema: Any, *rows: dict[str, Any], op: str | None = None, **message: Any) -> int:
        """Write rows with ``schema``; return its id."""
        id = self.register(schema)
        headers = () if op is None else (("dbz.op", op.encode()),)
        self.send(*(Message(framed(id, schema, row), headers=headers, **message) for row in rows))
        return id

    def send(self, *messages: Message) -> None:
        produce(self.kafka.brokers, self.name, messages, client=_ONE_REQUEST_AT_A_TIME)


def table_of(topic: Topic, name: str) -> dict[Any, dict[str, Any]]:
    """The rows, by id, that the change records in the topic ``name`` leave in a table."""
    table: dict[Any, dict[str, Any]] = {}
    for message in consume(topic.kafka.brokers, name):
        assert message.value is not None
        row = decode(topic.registry, message.value)
        if message.header("dbz.op") == b"d":
            table.pop(row["id"], None)
        else:
            table[row["id"]] = row
    return table


def framed(id: int, schema: Any, row: Any) -> bytes:
    """Return a row in the registry's wire format."""
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), row)
    return b"\0" + id.to_bytes(4, "big") + out.getvalue()


class KafkaBench(Bench):
    """Pipelines with one Kafka source, ``rows``, and one memory sink, ``out``."""

    def __init__(self, spark: Any, kafka: LocalKafka, registry: LocalRegistry) -> None:
        super().__init__(spark)
        self.kafka = kafka
        self.registry_service = registry
        self.settings: dict[str, Any] = {}
        #: the sink ``bad`` of pipelines whose source has `errors`
        self.dead_letters: dict[str, Any] = {"type": "memory"}
        #: sections of the configuration besides that of the source
        self.sections: dict[str, Any] = {}

    def topic(self, **how: Any) -> Topic:
        return Topic(self.kafka, self.registry_service, **how)

    def text(self, topic: Topic, sql: str | None = None, **options: Any) -> str:
        source = {"type": "kafka", "topic": topic.name, **options}
        transforms = {"shaped": {"type": "sql", "primary_key": "id", "sql": sql}} if sql else {}
        sinks = {"out": {"type": "memory", "from": "shaped" if sql else "rows"}}
        if "errors" in options:
            sinks["bad"] = self.dead_letters
        return json.dumps({"sources": {"rows": source}, "transforms": transforms, "sinks": sinks})

    def begin(self, topic: Topic, sql: str | None = None, **options: Any):
        return self.begin_text(self.text(topic, sql, **options))

    def begin_text(self, text: str, **how: Any):
        config = KafkaSourceSettings(
            **{"brokers": self.kafka.brokers, "schema_registry_url": self.registry_service.url, **self.settings}
        )
        return self.start(text, kafka_source=config, **self.sections, **how)

    def read(self, topic: Topic, count: int, sql: str | None = None, **options: Any) -> pa.Table:
        """Run until ``count`` rows have been collected, then drain."""
        run = self.begin(topic, sql, **options)
        return self.drained(run, count)

    def drained(self, run: Any, count: int) -> pa.Table:
        self.collected(run, count)
        return collected_rows(run, "out")

    def collected(self, run: Any, count: int) -> list[dict[str, Any]]:
        """Return all rows, when there are ``count`` of them and the run has drained; batches may differ in their
        columns."""
        try:
            eventually(lambda: run.failure is not None or rows_in(run) >= count, 60)
        finally:
            run.stop("the test has what it wants")
            finish(run)
        return [row for sink in run.graph.operators["out"] for batch in sink.batches for row in batch.to_pylist()]

    def rows(self, topic: Topic, count: int, sql: str | None = None, **options: Any) -> list[dict[str, Any]]:
        return self.read(topic, count, sql, **options).to_pylist()


def rows_in(run: Any) -> int:
    return sum(run.rows_written().values())
