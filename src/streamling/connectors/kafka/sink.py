"""Kafka sink: writes one message per row."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import BeforeValidator, Field

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.config import KafkaConfig
from streamling.connectors.kafka.encode.avro import encoding
from streamling.connectors.kafka.encode.avro_schema import value_schema
from streamling.connectors.kafka.encode.errors import write_error
from streamling.connectors.kafka.encode.json import json_value
from streamling.connectors.kafka.encode.messages import (
    avro_value,
    by_key,
    in_one_stream,
    key_text,
    last_per_key,
    messages,
    with_operation,
)
from streamling.connectors.kafka.errors import error_text
from streamling.connectors.kafka.local_plan import ArrowPlan, arrow_template
from streamling.connectors.kafka.probe import registry_connection, topic_connection
from streamling.connectors.kafka.reachable import check_cluster_policy, check_reachable
from streamling.connectors.kafka.reader import BUFFER_MESSAGES
from streamling.connectors.kafka.registry import RegisteredSchema, SchemaRegistry
from streamling.connectors.kafka.settings import client_settings
from streamling.connectors.kafka.writer import MessageSender, MessageWriter
from streamling.errors import StreamlingError
from streamling.pipeline.document.scalars import Duration, folded
from streamling.pipeline.options import ParallelOptions, SinkOptions
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.sinks import FrameSink
from streamling.plugins.streams import LocalRows, NeedsJob
from streamling.spark.counting import report_counts, shuffled_rows
from streamling.spark.row_counters import count_rows
from streamling.sql.kernels.registration import register

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streamling.plugins.context import NodeContext

_SECTION = "kafka_sink"
_LARGEST_MESSAGE = 10_485_760
#: Java's producer limits requests by bytes, not messages: assume this size for a message
_BYTES_PER_MESSAGE = 100
_MESSAGES_PER_REQUEST = 10_000
_LARGEST_REQUEST = 8 * 2**20
_LINGER = 0.2


class KafkaSinkOptions(ParallelOptions, SinkOptions):
    """Writes messages to a Kafka topic, keyed by the primary key, with the row kind in the header `dbz.op`."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"topic"})
    requires_primary_key: ClassVar[bool] = True

    topic: str = Field(min_length=1, description="Topic to write to; created if it does not exist.")
    data_format: Annotated[Literal["avro", "json"], BeforeValidator(folded)] = Field(
        description="Encoding of the messages."
    )
    topic_partitions: int = Field(default=4, ge=1, description="Number of partitions if the topic is created.")
    # The producer batches messages: rows are not collected in front of the node.
    batch_size: int | None = Field(default=None, ge=1, description="Messages per request (`batch.num.messages`).")
    batch_flush_interval: Duration | None = Field(
        default=None, description="Maximum wait for a full request (`linger.ms`)."
    )
    message_max_bytes: int | None = Field(
        default=None, ge=1, description="Maximum size of a message (`message.max.bytes`)."
    )
    compression: Literal["none", "gzip", "lz4"] = Field(default="lz4", description="Compression of messages.")
    deduplicate: bool = Field(default=True, description="Write only the last row per key of a batch.")


class KafkaSink(FrameSink[KafkaSinkOptions]):
    """Encodes rows in Spark's plan and writes them: large batches with Spark's Kafka writer, small ones with a producer
    of its own."""

    Options: ClassVar[type[KafkaSinkOptions]] = KafkaSinkOptions
    counts_rows: ClassVar[bool] = True

    def __init__(self, context: NodeContext[KafkaSinkOptions]) -> None:
        super().__init__(context)
        self._topic = context.options.topic
        config = context.config.part(KafkaConfig).kafka_sink
        check_cluster_policy(config.brokers, _SECTION, context.config)
        self._settings = client_settings(config, _SECTION)
        self._writer = MessageWriter(self._topic, self.producer_settings())
        self._sender = MessageSender(
            self._topic,
            # by default, a small batch does not wait for others: its messages have waited at the source
            self.producer_settings(linger=0.0),
            deduplicate=context.options.deduplicate,
            is_text=context.options.data_format == "json",
        )
        self._registry: SchemaRegistry | None = None
        self._schema: RegisteredSchema | None = None
        self._admin: KafkaAdmin | None = None
        #: columns of the last batch and the expression that encodes them
        self._value_cache: tuple[pa.Schema, Column] | None = None
        #: columns of the last rows that came from Python, and the plan that encodes them
        self._plan_cache: tuple[pa.Schema, ArrowPlan | NeedsJob] | None = None
        if context.options.data_format == "avro":
            self._registry = SchemaRegistry.of(context.config.part(KafkaConfig).kafka_sink, _SECTION, context.network)
            self._own_schema()

    @classmethod
    def spark_packages(cls, options: KafkaSinkOptions) -> frozenset[str]:
        return frozenset({"avro", "kafka"})

    @classmethod
    def connections(
        cls, context: NodeContext[KafkaSinkOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        config, options = context.config.part(KafkaConfig).kafka_sink, context.options
        brokers = topic_connection(config, _SECTION, options.topic, spark, context.network, must_exist=False)
        if options.data_format == "json":
            return (brokers,)
        subject = f"{options.topic}-value"
        return (brokers, registry_connection(config, _SECTION, subject, context.network, must_exist=False))

    def labels(self) -> Mapping[str, str]:
        return {"topic": self._topic}

    def batching(self) -> tuple[int | None, float | None]:
        return None, None  # the producer collects messages, not the node

    # ── topic and subject ───────────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        """Retries until brokers and registry are available."""
        self._value_cache = self._plan_cache = None  # from `needs_job`, which does not know the subject
        try:
            self.context.retry(self._prepare)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._sender.close()
        if self._admin is not None:
            self.context.shared.release(self._admin)
            self._admin = None

    def _prepare(self) -> None:
        from pyspark.sql import SparkSession

        if self._admin is None:
            brokers = self.context.config.part(KafkaConfig).kafka_sink.brokers
            check_reachable(brokers, _SECTION, self.context.network)
            self._admin = KafkaAdmin.shared(self.context.shared, SparkSession.active(), self._settings)
        if not self._admin.exists(self._topic):
            self._admin.create(self._topic, self.options.topic_partitions, self._topic_settings())
            self.context.log.info("created the topic '%s'", self._topic)
        if self._registry is not None:
            self._schema = self._registry.find_latest(self._subject) or self._register_schema(self._registry)

    def _topic_settings(self) -> dict[str, str]:
        settings = {"cleanup.policy": "compact", "retention.ms": "-1"}
        if self.options.message_max_bytes is not None:
            settings["max.message.bytes"] = str(self.options.message_max_bytes)
        return settings

    def _register_schema(self, registry: SchemaRegistry) -> RegisteredSchema:
        schema = self._own_schema()
        try:
            id = registry.register(self._subject, schema)
        except StreamlingError as error:
            raise error.context(f"registering the schema of this sink under '{self._subject}'") from None
        self.context.log.info("registered schema %d for the subject '%s'", id, self._subject)
        return RegisteredSchema(id, schema)

    def _own_schema(self) -> list[Any]:
        return value_schema(self._topic, self.context.input_schema, self.context.primary_key)

    @property
    def _subject(self) -> str:
        return f"{self._topic}-value"

    # ── rows ────────────────────────────────────────────────────────────────────────────────────────────────

    def write_frame(self, frame: DataFrame) -> int:
        began = time.monotonic()
        rows = self.context.retry(lambda: self._write(frame))
        self._record_latency(began)
        return rows

    def _record_latency(self, began: float) -> None:
        self.context.metrics.latency("kafka_producer.msg_encode_latency", time.monotonic() - began)

    def prepare_local(self, frame: DataFrame) -> DataFrame:
        frame = with_operation(frame)
        return messages(frame, *self._key_and_value(frame))

    def write_arrow(self, batches: Sequence[pa.RecordBatch]) -> bool:
        if sum(batch.num_rows for batch in batches) > BUFFER_MESSAGES:
            return False
        plan = self._arrow_plan(batches[0].schema)
        if isinstance(plan, NeedsJob):
            return False
        try:
            rows = plan.to_rows(batches)
        except Exception as error:
            raise self._translate_error(error) from None
        self.write_local(rows)
        return True

    def needs_job(self, columns: pa.Schema) -> NeedsJob | None:
        plan = self._arrow_plan(columns)
        return plan if isinstance(plan, NeedsJob) else None

    def _arrow_plan(self, schema: pa.Schema) -> ArrowPlan | NeedsJob:
        """Return the plan that encodes rows with these columns."""
        if self._plan_cache is None or not self._plan_cache[0].equals(schema, check_metadata=True):
            from pyspark.sql import SparkSession

            template = arrow_template(SparkSession.active(), schema)
            self._plan_cache = schema, ArrowPlan.of(self.prepare_local(template))
        return self._plan_cache[1]

    def local_writer(self, spark: SparkSession) -> Any:
        return self._sender.java(spark)

    def written_local(self, rows: int, sent: int, seconds: float) -> None:
        self.context.metrics.latency("kafka_producer.msg_encode_latency", seconds)
        self.context.count_delivered(sent, deduplicated=rows - sent)

    def write_local(self, rows: LocalRows) -> None:
        began = time.monotonic()
        self.context.retry(lambda: self._send(rows))
        self._record_latency(began)

    def _send(self, rows: LocalRows) -> None:
        try:
            sent = self._sender.send(rows)
        except Exception as error:
            raise self._translate_error(error) from None
        self.context.count_delivered(sent, deduplicated=rows.count - sent)

    def translate_error(self, error: Exception) -> StreamlingError | None:
        """For rows that cannot be encoded in `prepare_local`."""
        return write_error(error_text(error), self._topic)

    def _key_and_value(self, frame: DataFrame) -> tuple[str, Column]:
        from streamling.types.spark import to_arrow_schema

        columns = to_arrow_schema(frame.schema)
        key = key_text(self.context.primary_key, columns)
        register(frame.sparkSession, [key, json_value(columns)] if self._registry is None else [key])
        return key, self._value(columns)

    def _write(self, frame: DataFrame) -> int:
        frame = with_operation(frame)
        key, value = self._key_and_value(frame)
        ordered = self.ordered(frame, key)
        # rows that are only shuffled are counted there
        counter = count_rows(ordered) if self.options.deduplicate or self._is_in_place else None
        rows = messages(ordered if counter is None else counter.frame, key, value)
        try:
            execution = self._writer.write(rows)
        except Exception as error:
            raise self._translate_error(error) from None
        report_counts(execution)
        sent = shuffled_rows(frame.sparkSession, execution) if counter is None else counter.rows() or 0
        taken = sent if self._is_in_place else shuffled_rows(frame.sparkSession, execution)
        self.context.count_delivered(sent, deduplicated=taken - sent)
        return taken

    @property
    def _is_in_place(self) -> bool:
        """Whether the task that computes rows also writes them, without a shuffle."""
        return not self.options.deduplicate and self.options.instance_count == 1

    def ordered(self, frame: DataFrame, key: str) -> DataFrame:
        if self.options.deduplicate:
            return last_per_key(frame, key, self.options.instance_count)
        return in_one_stream(frame) if self._is_in_place else by_key(frame, key, self.options.instance_count)

    def _value(self, columns: pa.Schema) -> Column:
        if self._value_cache is None or not self._value_cache[0].equals(columns, check_metadata=True):
            self._value_cache = columns, self._encode_value(columns)
        return self._value_cache[1]

    def _encode_value(self, columns: pa.Schema) -> Column:
        from pyspark.sql import functions as f

        if self._registry is None:
            return f.expr(json_value(columns))
        schema = self._schema or RegisteredSchema(0, self._own_schema())
        try:
            found = encoding(schema.schema, columns)
            return avro_value(found, schema.id, self.context.primary_key)
        except StreamlingError as error:
            latest = self._registry.latest(self._subject)
            if latest == self._schema:
                raise error.context(f"schema {latest.id} of the subject '{self._subject}'") from None
            self._schema = latest  # a schema with the new columns has been registered meanwhile
            return self._encode_value(columns)

    def producer_settings(self, linger: float = _LINGER) -> dict[str, str]:
        """Return the settings of a producer that waits ``linger`` seconds for more messages, if the user sets nothing
        else."""
        options = self.options
        linger = linger if options.batch_flush_interval is None else options.batch_flush_interval
        request = (options.batch_size or _MESSAGES_PER_REQUEST) * _BYTES_PER_MESSAGE
        return {
            **self._settings,
            "acks": "all",
            "compression.type": options.compression,
            "max.request.size": str(options.message_max_bytes or _LARGEST_MESSAGE),
            "batch.size": str(min(request, _LARGEST_REQUEST)),
            "linger.ms": str(round(linger * 1000)),
            # An unavailable broker is reported after half a minute and retried by us; otherwise the client would retry
            # silently.
            "request.timeout.ms": "15000",
            "delivery.timeout.ms": str(30000 + round(linger * 1000)),
            "max.block.ms": "15000",
        }

    def _translate_error(self, error: Exception) -> Exception:
        """Translate the error, or return it unchanged if the rows themselves could not be computed."""
        translated = write_error(error_text(error), self._topic)
        if translated is None:
            return error
        if translated.retriable and self._admin is not None:
            return self._deleted_topic_error() or translated
        return translated

    def _deleted_topic_error(self) -> StreamlingError | None:
        """Return an error if the topic was deleted. A deleted topic is not recreated silently, because its messages
        would be missing."""
        assert self._admin is not None
        try:
            exists = self._admin.exists(self._topic)
        except StreamlingError:
            return None
        if exists:
            return None
        return StreamlingError.user(
            f"the topic '{self._topic}' was deleted while the sink was writing to it",
            remedy="create it, or restart the pipeline, which creates it",
        )
