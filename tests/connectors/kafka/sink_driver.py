"""Pipelines that write given rows to Kafka, and the resulting content of the topic."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamling.connectors.kafka.config import KafkaSinkSettings
from streamling.dev.contracts.harness import BatchListSource
from streamling.dev.services.avro import SchemaRegistry, decode
from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.registry import LocalRegistry
from streamling.dev.services.topics import Message, consume, create_topic, partition_count
from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from tests.harness.pipelines import Bench, finish

_numbers = itertools.count(1)
_OPERATIONS = {b"c": "i", b"u": "u", b"d": "d"}


class KafkaSinkBench(Bench):
    """Pipelines from a source ``given`` (with the rows of a test) to a Kafka sink ``out``."""

    def __init__(self, spark: Any, kafka: LocalKafka, registry: LocalRegistry) -> None:
        super().__init__(spark)
        self.kafka = kafka
        self.url = registry.url
        self.schemas = SchemaRegistry(registry.url)
        self.settings: dict[str, Any] = {}
        self.batches: Sequence[pa.RecordBatch] = ()
        #: called with the number of the next batch
        self.between: Callable[[int], object] = lambda number: None
        self.runs: list[PipelineRun] = []

    def registry(self) -> Registry:
        registry = super().registry()
        given = {"batches": self.batches, "on_read": lambda number: self.between(number)}
        registry.register(NodeKind.SOURCE, "given", type("Given", (BatchListSource,), given))
        return registry

    @staticmethod
    def topic() -> str:
        return f"written-{next(_numbers)}"

    def text(self, topic: str, sql: str | None = None, *, key: str = "id", **options: Any) -> str:
        sink = {"type": "kafka", "topic": topic, "data_format": "avro", "from": "shaped" if sql else "given", **options}
        transforms = {"shaped": {"type": "sql", "primary_key": key, "sql": sql}} if sql else {}
        source = {"type": "given", "primary_key": key}
        return json.dumps({"sources": {"given": source}, "transforms": transforms, "sinks": {"out": sink}})

    def begin(self, topic: str, *batches: pa.RecordBatch, sql: str | None = None, **options: Any) -> PipelineRun:
        self.batches = batches
        config = KafkaSinkSettings(**{"brokers": self.kafka.brokers, "schema_registry_url": self.url, **self.settings})
        run = self.prepare(self.text(topic, sql, **options), kafka_sink=config)
        self.runs.append(run)
        run.start()
        return run

    def write(self, topic: str, *batches: pa.RecordBatch, **options: Any) -> None:
        """Run from the first row to the end."""
        self.state = MemoryState()
        finish(self.begin(topic, *batches, **options))

    def failure(self, topic: str, *batches: pa.RecordBatch, **options: Any) -> StreamlingError:
        """Run a pipeline that must fail."""
        try:
            self.write(topic, *batches, **options)
        except StreamlingError as error:
            return error
        raise AssertionError("the pipeline ended well")

    def create(self, topic: str, *, schema: Any = None, **how: Any) -> str:
        """A topic that exists before the pipeline, and a schema for its messages."""
        create_topic(self.kafka.brokers, topic, **how)
        if schema is not None:
            self.schemas.register(f"{topic}-value", schema)
        return topic

    def partitions(self, topic: str) -> int:
        return partition_count(self.kafka.brokers, topic)

    def configuration(self, topic: str) -> dict[str, str]:
        """Return all settings of a topic."""
        from confluent_kafka.admin import AdminClient, ConfigResource

        admin = AdminClient({"bootstrap.servers": self.kafka.brokers})  # lives until all requests are answered
        (answer,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in answer.result(30).items()}

    def record_batches(self, topic: str) -> list[RecordBatch]:
        """What the producer sent at once, as the broker has stored it."""
        segments = sorted((self.kafka.folder / "data").glob(f"{topic}-[0-9]*/*.log"))
        return [batch for segment in segments for batch in _record_batches(segment.read_bytes())]

    def messages(self, topic: str) -> list[Message]:
        return list(consume(self.kafka.brokers, topic))

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """Return rows in the topic, Avro or JSON, read by a decoder that is not ours."""
        return [self.row(message) for message in self.messages(topic)]

    def row(self, message: Message) -> dict[str, Any]:
        assert message.value is not None
        json_text = message.value[:1] == b"{"
        value = json.loads(message.value) if json_text else decode(self.schemas, message.value)
        operation = _OPERATIONS[message.header("dbz.op")]
        assert value.get("_gs_op", operation) == operation, "payload and header disagree"
        return {**value, "_gs_op": operation}


@dataclass(frozen=True)
class RecordBatch:
    codec: str
    messages: int


def _record_batches(segment: bytes) -> Iterator[RecordBatch]:
    """The batches of a log segment, in Kafka's record format 2."""
    header = struct.Struct(">qiibIhi")  # base offset, length, leader epoch, magic, CRC, attributes, last offset delta
    at = 0
    while at + header.size <= len(segment):
        _, length, _, magic, _, attributes, last = header.unpack_from(segment, at)
        if not length:  # the rest of the file is reserved
            return
        assert magic == 2
        yield RecordBatch(("none", "gzip", "snappy", "lz4", "zstd")[attributes & 7], last + 1)
        at += 12 + length


def record(*fields: Any, **extra: Any) -> dict[str, Any]:
    """Return a record schema with these fields: pairs of name and type, or triples with a default."""
    made = [
        {"name": name, "type": type_, **dict(zip(["default"], more, strict=False))} for name, type_, *more in fields
    ]
    return {"type": "record", "name": "row", "fields": made, **extra}


def people(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    """Return rows of id, name and, if given, operation."""
    full = [(*row, "i")[:3] for row in rows]
    ids, names, operations = zip(*full, strict=True)
    return pa.record_batch(
        {"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string()), "_gs_op": pa.array(operations)}
    )


def numbered(first: int, count: int) -> pa.RecordBatch:
    return people(*((id, f"n{id}") for id in range(first, first + count)))
