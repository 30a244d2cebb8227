"""Hybrid source: reads tables first, then the topic that continues them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from streamling.connectors.clickhouse.config import ClickHouseConfig
from streamling.connectors.clickhouse.probe import clickhouse_connection
from streamling.connectors.clickhouse.server import ClickHouseServer
from streamling.connectors.hybrid.handoff import HandOff
from streamling.connectors.hybrid.offset_table import LoadedOffsets
from streamling.connectors.hybrid.options import HybridSourceOptions, locate_error
from streamling.connectors.hybrid.phases import Phases
from streamling.connectors.hybrid.stored_phases import StoredPhases
from streamling.connectors.hybrid.tables import BoundedTables
from streamling.connectors.kafka.group.source import group_name
from streamling.connectors.kafka.offsets import Offsets
from streamling.connectors.kafka.source import KafkaSource
from streamling.errors import StreamlingError
from streamling.plugins.connections import ConnectionCheck, ExternalPosition
from streamling.plugins.sources import END, End, Position, Progress, SourceBatch, Wait
from streamling.plugins.streams import LocalPlan, NeedsJob, Stream, StreamedSource
from streamling.retry import RetryLog, backoff_delay, call_with_startup_retries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.connectors.hybrid.options import HybridSourceOptions
    from streamling.connectors.kafka.source_options import KafkaSourceOptions
    from streamling.plugins.context import NodeContext


#: seconds between two checks whether the switch to the topic has been stored
_STORED_CHECK = 0.1


class HybridSource(StreamedSource[HybridSourceOptions]):
    """Reads the tables of its bounded phases as the backfill of its stream, which is that of a Kafka source."""

    Options: ClassVar[type[HybridSourceOptions]] = HybridSourceOptions
    own_thread: ClassVar[bool] = False

    def __init__(self, context: NodeContext[HybridSourceOptions]) -> None:
        super().__init__(context)
        self.bounded = context.config.job_mode
        kafka = _kafka_context(context)
        self._kafka = KafkaSource(kafka)
        self._topic = kafka.options.topic
        self._tables = BoundedTables(context)
        self._offsets = Offsets(context.name, self._topic, committed=True, group=group_name(kafka), log=context.log)
        config = context.config.part(ClickHouseConfig).clickhouse_source
        server = ClickHouseServer.of(config, "clickhouse_source", context.network)
        self._loaded = LoadedOffsets(context.options, server, context.config.application_id)
        self._handoff = HandOff(context, self._offsets, self._loaded)
        self._stored = StoredPhases(context, self._offsets, self._tables, self._loaded)
        #: whether a checkpoint that stores the switch to the topic was requested, and whether it is complete
        self._is_requested = False
        self._is_stored = False
        self._retry_log = RetryLog(context.log, context.report_retry)
        #: failed attempts in a row, and the time of the first
        self._attempts = 0
        self._failing_since = 0.0
        #: whether the topic is being read
        self._is_streaming = False

    @classmethod
    def spark_packages(cls, options: HybridSourceOptions) -> frozenset[str]:
        return KafkaSource.spark_packages(options.kafka)

    @classmethod
    def connections(
        cls, context: NodeContext[HybridSourceOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        kafka = KafkaSource.connections(_kafka_context(context), spark)
        if context.config.job_mode:
            kafka = [connection for connection in kafka if not connection.uses_spark]
        return (*table_connections(context), *kafka)

    @classmethod
    def external_positions(
        cls, context: NodeContext[HybridSourceOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ExternalPosition]:
        return KafkaSource.external_positions(_kafka_context(context), spark)

    def labels(self) -> Mapping[str, str]:
        tables = ",".join(phase.table_name for phase in self.options.bounded_sources)
        return {"topic": self._topic, **({"table": tables} if tables else {})}

    @property
    def always_drains(self) -> bool:
        return not self._is_stored

    # ── before Spark ────────────────────────────────────────────────────────────────────────────────────────

    def schema(self) -> pa.Schema:
        """Return the columns of the topic. Tables that are still to be read must have them too; the others may have
        been dropped meanwhile."""
        try:
            schema = self._kafka.schema()
        except StreamlingError as error:
            raise locate_error(error, "unbounded_source", "topic") from None
        phases = self._stored.find() or Phases()
        if not phases.is_handed_off:
            self._tables.load(schema, phases.current)
        if phases.start is None and not phases.is_handed_off:
            timeout = self.context.config.startup_timeout_sec
            call_with_startup_retries(self._loaded.check, timeout=timeout, log=self.context.log)
        return schema

    def state_keys(self) -> Sequence[str]:
        return (self._stored.key, *self._tables.cursor_keys, *self._kafka.state_keys())

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        if not self.bounded:
            self._kafka.open()

    def close(self) -> None:
        self._tables.close()
        self._kafka.close()

    def restore(self) -> Position:
        phases = self._stored.restore()
        if phases is None:
            return {}
        if phases.is_handed_off:
            self._is_stored = True
            return {self._stored.key: phases.entry(self._topic), **self._kafka.restore()}
        return self._position(phases, self._tables.restore(phases.current))

    def backfill(self, spark: SparkSession, position: Position) -> SourceBatch | Wait | End:
        try:
            step = self._next(spark, position)
        except StreamlingError as error:
            if not error.retriable:
                raise
            return self._retry(error)
        if self._attempts:
            self._retry_log.recovered(self._attempts, time.monotonic() - self._failing_since)
            self._attempts = 0
        return step

    def _retry(self, error: StreamlingError) -> Wait:
        if not self._attempts:
            self._failing_since = time.monotonic()
        self._attempts += 1
        delay = backoff_delay(self._attempts, random.random())
        self._retry_log.failed(error, self._attempts, delay)
        return Wait(delay)

    def _next(self, spark: SparkSession, position: Position) -> SourceBatch | Wait | End:
        phases = self._stored.parse(position.get(self._stored.key)) or Phases()
        if phases.is_handed_off:
            return self._after_handoff(position)
        if phases.start is None:
            cursor = {key: value for key, value in position.items() if key in self._tables.cursor_keys}
            return self._moved(self._position(self._handoff.record_start(phases, spark), cursor))
        if phases.current < len(self.options.bounded_sources):
            return self._read_table(phases, position)
        if self.bounded:
            if not self.options.bounded_sources:
                self.context.log.warning("there are no bounded sources, so there is nothing to read in job mode")
            return END
        offsets = self._handoff.position(phases, spark)
        self.context.log.info("all tables have been read; continuing with the topic '%s'", self._topic)
        return self._moved(self._position(phases.handed_off(), offsets))

    def _read_table(self, phases: Phases, position: Position) -> SourceBatch:
        step = self._tables.read(phases.current, position)
        if isinstance(step, End):
            return self._moved(self._position(phases.completed(), {}))
        return step if step.position is position else replace(step, position=self._position(phases, step.position))

    def _after_handoff(self, position: Position) -> SourceBatch | Wait | End:
        """End this phase, so that the topic is read as soon as its offsets are stored: instances that share a state
        find them there."""
        if not self._is_stored:
            if not self._is_requested:
                self._is_requested = True
                self.context.checkpoint(0)
            return Wait(_STORED_CHECK)
        if None in position.values():
            return self._moved({key: value for key, value in position.items() if value is not None})
        return END

    def _position(self, phases: Phases, part: Position) -> Position:
        """Return a position in ``phases``; the positions in tables that have been read are removed from the state."""
        done = dict.fromkeys(self._tables.cursor_keys[: phases.current])
        return {self._stored.key: phases.entry(self._topic), **done, **part}

    def _moved(self, position: Position) -> SourceBatch:
        return SourceBatch(pa.table({}), position)

    # ── the topic ───────────────────────────────────────────────────────────────────────────────────────────

    def stream(self, spark: SparkSession, position: Position) -> Stream | None:
        self._is_streaming = True
        self._tables.close()
        own = {key: value for key, value in position.items() if key.startswith(self._offsets.prefix)}
        return self._kafka.stream(spark, own)

    def template(self, spark: SparkSession) -> DataFrame | None:
        return self._kafka.template(spark)

    def local_plan(self, frame: DataFrame) -> LocalPlan | NeedsJob:
        return self._kafka.local_plan(frame)

    def lag(self) -> int | None:
        return self._kafka.lag()

    def caught_up(self) -> bool:
        return self._kafka.caught_up()

    def commit(self, position: Position) -> None:
        phases = self._stored.parse(position.get(self._stored.key))
        self._is_stored |= phases is not None and phases.is_handed_off
        self._kafka.commit(position)

    def progress(self) -> Progress | None:
        return None if self._is_streaming else self._tables.progress()

    def translate_error(self, error: Exception) -> StreamlingError | None:
        return (self._kafka if self._is_streaming else self._tables).translate_error(error)


def _kafka_context(context: NodeContext[HybridSourceOptions]) -> NodeContext[KafkaSourceOptions]:
    """Return the context of a Kafka source that reads the topic."""
    contextual: Any = context
    return replace(contextual, options=context.options.kafka)


# ── checks of the ClickHouse server ──────────────────────────────────────────────────────────────────────────────


def table_connections(context: NodeContext[HybridSourceOptions]) -> list[ConnectionCheck]:
    """Return the checks of the server and of the offset table."""
    config = context.config.part(ClickHouseConfig).clickhouse_source
    server = ClickHouseServer.of(config, "clickhouse_source", context.network)
    loaded = LoadedOffsets(context.options, server, context.config.application_id)
    offsets = ConnectionCheck("ClickHouse", f"{server}, offset table {loaded.table}", partial(_check_offsets, loaded))
    return [clickhouse_connection(server), offsets]


def _check_offsets(loaded: LoadedOffsets) -> str:
    found = loaded.read()
    if not found:
        missing = "does not exist" if found is None else f"has no row for the topic '{loaded.topic}'"
        return f"{missing}: start_at decides where the topic is read from"
    count = "1 partition" if len(found) == 1 else f"{len(found)} partitions"
    return f"{count} of the topic '{loaded.topic}'"
