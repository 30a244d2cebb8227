"""Kafka source: reads the rows of a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

import pyarrow as pa

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.batch_options import BatchSize
from streamling.connectors.kafka.config import KafkaConfig
from streamling.connectors.kafka.decode.avro import AvroFormat
from streamling.connectors.kafka.decode.errors import broker_error, first_undecodable, is_undecodable
from streamling.connectors.kafka.decode.invalid_messages import (
    UNKNOWN_KEY_SCHEMA,
    UNKNOWN_SCHEMA,
    InvalidMessage,
    find_invalid_message,
    message_location,
)
from streamling.connectors.kafka.decode.json import JsonFormat
from streamling.connectors.kafka.decode.rows import METADATA, decode_rows, decode_rows_with_rejects
from streamling.connectors.kafka.errors import error_text
from streamling.connectors.kafka.group.source import SECTION, GroupAssignment, group_name, group_position
from streamling.connectors.kafka.group.start_log import StartLog
from streamling.connectors.kafka.lag import LagReporter
from streamling.connectors.kafka.lag_monitor import LagMonitor
from streamling.connectors.kafka.local_plan import MessagePlan, message_template, rows_of
from streamling.connectors.kafka.offsets import Offsets
from streamling.connectors.kafka.probe import registry_connection, topic_connection
from streamling.connectors.kafka.reachable import check_cluster_policy, check_reachable
from streamling.connectors.kafka.reader import MessageBuffer
from streamling.connectors.kafka.registry import SchemaRegistry
from streamling.connectors.kafka.settings import client_settings, spark_options
from streamling.connectors.kafka.source_options import KafkaSourceOptions
from streamling.connectors.kafka.stream import KafkaStream, TopicReader
from streamling.errors import StreamlingError
from streamling.plugins.connections import ConnectionCheck, ExternalPosition
from streamling.plugins.rejects import REJECT_COLUMN
from streamling.plugins.sources import Position
from streamling.plugins.streams import LocalPlan, NeedsJob, Stream, StreamedSource, StreamRestart
from streamling.retry import call_with_startup_retries
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext

_COMMITTED = "read_committed"


class KafkaSource(StreamedSource[KafkaSourceOptions]):
    """Reads a topic (`KafkaStream`) and decodes it in Spark's plan."""

    Options: ClassVar[type[KafkaSourceOptions]] = KafkaSourceOptions
    own_thread: ClassVar[bool] = False
    can_scale_out: ClassVar[bool] = True  # through the consumer group
    row_kind_metric: ClassVar[str | None] = "kafka_consumer.row_kind_count"

    def __init__(self, context: NodeContext[KafkaSourceOptions]) -> None:
        super().__init__(context)
        self._topic = context.options.topic
        self._config = context.config.part(KafkaConfig).kafka_source
        check_cluster_policy(self._config.brokers, SECTION, context.config)
        self._settings = client_settings(self._config, SECTION)
        self._offsets = Offsets(
            context.name,
            self._topic,
            committed=context.options.isolation_level == _COMMITTED,
            group=group_name(context),
            log=context.log,
        )
        self._format = self._create_format()
        self._admin: KafkaAdmin | None = None
        self._group: GroupAssignment | None = None
        self._monitor: LagMonitor | None = None
        self._lag: LagReporter | None = None
        #: the plan of decoded messages, for the plans that are made of it
        self._template: DataFrame | None = None
        self._start_log = StartLog(self._topic, context.log)
        #: the running stream
        self._stream: KafkaStream | None = None
        #: end of the topic at the start; fetched when first needed
        self._ends: dict[int, int] | None = None
        #: a message whose schema id has to be looked up in the registry
        self._unknown: InvalidMessage | None = None

    def _create_format(self) -> AvroFormat | JsonFormat:
        name, options = self.context.name, self.options
        if options.schema_ is not None:
            return JsonFormat(name, options.schema_, rejecting=self._rejecting)
        registry = SchemaRegistry.of(self._config, SECTION, self.context.network)
        return AvroFormat(name, self._topic, options, registry, rejecting=self._rejecting)

    @property
    def _rejecting(self) -> bool:
        """Whether invalid messages go to a dead-letter sink."""
        return self.options.errors is not None

    @property
    def is_realtime(self) -> bool:
        return self.options.latency == "realtime"

    @classmethod
    def spark_packages(cls, options: KafkaSourceOptions) -> frozenset[str]:
        return frozenset({"avro", "kafka"})

    @classmethod
    def connections(
        cls, context: NodeContext[KafkaSourceOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        config, topic = context.config.part(KafkaConfig).kafka_source, context.options.topic
        brokers = topic_connection(config, SECTION, topic, spark, context.network)
        if context.options.data_format == "json":
            return (brokers,)
        return (brokers, registry_connection(config, SECTION, f"{topic}-value", context.network))

    @classmethod
    def external_positions(
        cls, context: NodeContext[KafkaSourceOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ExternalPosition]:
        return (group_position(context, spark),)

    def labels(self) -> Mapping[str, str]:
        return {"topic": self._topic}

    # ── before Spark ────────────────────────────────────────────────────────────────────────────────────────

    def schema(self) -> pa.Schema:
        timeout = self.context.config.startup_timeout_sec
        call_with_startup_retries(self._format.load, timeout=timeout, log=self.context.log)
        schema = self._schema()
        self._check_filter(schema)
        return schema

    def _check_filter(self, schema: pa.Schema) -> None:
        if self.options.row_filter is not None:
            self.options.row_filter.compile(schema)

    def _schema(self) -> pa.Schema:
        fields = list(self._format.schema())
        if OP_COLUMN not in self._format.schema().names:
            fields.append(pa.field(OP_COLUMN, pa.string(), nullable=False))
        return pa.schema([*fields, *(METADATA if self.options.include_metadata else ())])

    def inferred_primary_key(self) -> tuple[str, ...]:
        return self._format.primary_key()

    def state_keys(self) -> Sequence[str]:
        return (f"{self._offsets.prefix}*",)

    def restore(self) -> Position:
        if self.context.state.is_shared:
            return {}  # unknown until the group has assigned partitions
        return dict(self.context.state.get_prefix(self._offsets.prefix))

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        """Waits briefly for brokers that are unreachable; the flow retries later outages."""
        self.context.retry(partial(check_reachable, self._config.brokers, SECTION, self.context.network))

    def close(self) -> None:
        if self._group is not None:
            self._leave(self._group)
        if self._lag is not None:
            self._lag.stop()
        for client in (self._monitor, self._admin):
            if client is not None:
                self.context.shared.release(client)

    def _leave(self, group: GroupAssignment) -> None:
        try:
            group.close()
        except StreamlingError as error:
            self.context.log.warning("cannot commit offsets to the group '%s': %s", group.name, error)

    def stream(self, spark: SparkSession, position: Position) -> Stream | None:
        self._stream = None
        if self._unknown is not None:
            self._add_schema(self._unknown)
        if self._admin is None:
            self._admin = KafkaAdmin.shared(self.context.shared, spark, self._settings)
        if self._group is None:
            self._group = GroupAssignment(spark, self._admin, self._settings, self.context, self._offsets)
        group = self._group
        mine = group.position(position or self._initial_position(self._admin, group))
        if mine is None:
            self._report_lag(spark, self._admin, {})
            return None
        starting = self.options.starting_offsets
        offsets = self._offsets.start(self._admin, mine, starting, group.committed, group.partitions)
        self._start_log.report(offsets, self._offsets.reasons)
        self._report_lag(spark, self._admin, offsets)
        at = self._offsets.position(offsets, mine) if group.shares else position
        self._stream = KafkaStream(self._topic_reader(spark, self._admin, group), at, offsets)
        return self._stream

    @property
    def assigned_partitions(self) -> frozenset[int] | None:
        """The partitions that this instance reads; None if it has not joined the group or reads all."""
        return None if self._group is None else self._group.assigned

    def template(self, spark: SparkSession) -> DataFrame:
        self._template = self._decoded(message_template(spark, headers=self._has_headers))
        return self._selected(self._template)

    def local_plan(self, frame: DataFrame) -> LocalPlan | NeedsJob:
        plan = MessagePlan.of(frame, headers=self._has_headers)
        if isinstance(plan, MessagePlan) and self._template is not None:
            plan.share(self._decoding, self._template)
        return plan

    @property
    def _decoding(self) -> str:
        """Equal for sources that make the same rows of a message: errors name the source."""
        how = (self._rejecting, self.context.primary_key, self.options.include_metadata, self._format.identity())
        return f"{self.context.name} {how}"

    def _initial_position(self, admin: KafkaAdmin, group: GroupAssignment) -> Position:
        """Return the initial position for `latest`. It is stored: otherwise a restart before the first batch would
        start later."""
        if self.options.starting_offsets != "latest":
            return {}
        if not self._offsets.of(self.context.state.get_prefix(self._offsets.prefix)):
            self.context.state.put_if_absent(self._offsets.ends(admin, group.committed))
        return self.restore()

    def lag(self) -> int | None:
        return None if self._lag is None else self._lag.total_lag

    def caught_up(self) -> bool:
        """Return whether the end offsets at the start have been reached in the partitions of this instance."""
        if self._admin is None or self._group is None or not self._group.is_assigned:
            return False
        at, mine = {} if self._stream is None else self._stream.offsets, self._group.partitions
        if self._ends is None:
            try:
                self._ends = self._offsets.latest(self._admin, sorted(at if mine is None else mine))
            except StreamlingError as error:
                if not error.retriable:
                    raise
                return False
        return all(
            at.get(partition, 0) >= end for partition, end in self._ends.items() if mine is None or partition in mine
        )

    def commit(self, position: Position) -> None:
        if self._lag is not None:
            self._lag.record_stored(self._offsets.of(position))
        if self._group is None:
            return
        try:
            self._group.record_stored(position)
        except StreamlingError as error:
            self.context.log.warning("cannot commit offsets to the group '%s': %s", self._group.name, error)

    def translate_error(self, error: Exception) -> StreamlingError | None:
        text = error_text(error)
        failure = find_invalid_message(text, self.context.name)
        if failure is not None and failure.kind in (UNKNOWN_SCHEMA, UNKNOWN_KEY_SCHEMA):
            self._unknown = failure
            return StreamRestart(f"the topic '{self._topic}' has a message with the new schema {failure.detail}")
        if failure is not None:
            return failure.error(self._topic)
        if is_undecodable(text):
            return self._undecodable_error()
        return broker_error(text, self._topic)

    def _report_lag(self, spark: SparkSession, admin: KafkaAdmin, offsets: Mapping[int, int]) -> None:
        if self._lag is None:
            self._monitor = LagMonitor.shared(self.context.shared, admin, spark, self._settings)
            interval = self._config.lag_report_interval_ms / 1000
            # a restarted stream compares the topic's id with that of the position
            restart = partial(self.context.restart_stream, 0)
            self._lag = LagReporter(
                self._monitor, self._offsets, self.context.metrics, interval, self.context.log, restart
            )
        self._lag.track(offsets)

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _add_schema(self, unknown: InvalidMessage) -> None:
        before = self._format.schema()
        try:
            self._format.add_schema(int(unknown.detail), of_key=unknown.kind == UNKNOWN_KEY_SCHEMA)
        except StreamlingError as error:
            location = message_location(self._topic, unknown.partition, unknown.offset)
            what = "has a key that was" if unknown.kind == UNKNOWN_KEY_SCHEMA else "was"
            raise error.context(f"{location} {what} written with schema {unknown.detail}") from None
        if self._format.schema() != before:
            self._check_filter(self._schema())
            added = [name for name in self._format.schema().names if name not in before.names]
            self.context.log.info(
                "the topic '%s' has a new schema%s", self._topic, f", new columns: {', '.join(added)}" if added else ""
            )
        self._unknown = None

    def _topic_reader(self, spark: SparkSession, admin: KafkaAdmin, group: GroupAssignment) -> TopicReader:
        settings, level = self._settings, self.options.isolation_level
        is_whole = group.partitions is None
        return TopicReader(
            admin,
            self._offsets,
            BatchSize.of(self.context, spark.sparkContext.defaultParallelism),
            spark.read.format("kafka").options(**self.reader_options(spark)),
            self.options.parallelism,
            self._batch_decoder(spark),
            lambda offsets, on_ready: MessageBuffer(
                spark, settings, level, self._topic, offsets, on_ready, is_whole=is_whole, pace=self.options.pace
            ),
        )

    @property
    def _has_headers(self) -> bool:
        return self._rejecting or OP_COLUMN not in self._format.schema().names

    def reader_options(self, spark: SparkSession) -> dict[str, str]:
        return {
            **spark_options(self._settings),
            **BatchSize.of(self.context, spark.sparkContext.defaultParallelism).reader_options(),
            "failOnDataLoss": "true",
            "kafka.isolation.level": self.options.isolation_level,
            "includeHeaders": str(self._has_headers).lower(),
            "kafkaConsumer.pollTimeoutMs": str(int(self._config.consumer_fetch_timeout_sec * 1000)),
            # the consumers of tasks are kept under this name for the next batch
            "kafka.group.id": f"streamling-{self.context.name}-{uuid4().hex}",
        }

    def _batch_decoder(self, spark: SparkSession) -> Callable[[DataFrame], DataFrame]:
        """Return what makes the rows of the messages of a batch, as long as the format has the same schemas."""
        template = cache(lambda: self._decoded(message_template(spark, headers=self._has_headers)))
        return lambda messages: self._selected(rows_of(template(), messages))

    def _decoded(self, messages: DataFrame) -> DataFrame:
        primary_key = self.context.primary_key or self._format.primary_key()
        if self._rejecting:
            return decode_rows_with_rejects(messages, self._format, self._schema(), self._topic, primary_key)
        return decode_rows(messages, self._format, self._schema(), self.context.name, primary_key)

    def _selected(self, rows: DataFrame) -> DataFrame:
        rows = self.context.measure_rows(rows)
        if self.options.row_filter is None:
            return rows
        unless = f"{REJECT_COLUMN} IS NOT NULL" if self._rejecting else "FALSE"
        return self.options.row_filter.apply(rows, self._schema(), unless=unless)

    def _undecodable_error(self) -> StreamlingError:
        """Find the first message that cannot be decoded, because Spark does not report which one it was."""
        format, stream = self._format, self._stream
        if (
            stream is not None
            and isinstance(format, AvroFormat)
            and (found := first_undecodable(stream.last_messages(), format.is_decodable()))
        ):
            partition, offset, id = found
            location = message_location(self._topic, partition, offset)
            return StreamlingError.user(f"{location} {format.undecodable(id)}")
        return StreamlingError.user(f"a message of the topic '{self._topic}' cannot be decoded with its Avro schema")
