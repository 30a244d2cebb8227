"""From where the topic is read after the tables, without a gap.

The offsets are recorded before the first table is read, not when the last one has been read. A row that is loaded into
ClickHouse while the tables are read may land in a part that has been read already. Its message lies behind the offsets
that were recorded at the start, so it is read from the topic; offsets that are looked up at the end would skip it. Rows
that were read from both are the same, and a sink with a primary key stores them once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from streamling.connectors.hybrid.offset_table import LoadedOffsets
from streamling.connectors.hybrid.phases import Phases
from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.config import KafkaConfig
from streamling.connectors.kafka.group.membership import format_partitions
from streamling.connectors.kafka.group.source import SECTION
from streamling.connectors.kafka.offsets import Offsets
from streamling.connectors.kafka.settings import client_settings
from streamling.errors import StreamlingError
from streamling.plugins.sources import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.connectors.hybrid.options import HybridSourceOptions
    from streamling.plugins.context import NodeContext


class HandOff:
    """Decides at which offsets the topic of a hybrid source continues its tables."""

    def __init__(self, context: NodeContext[HybridSourceOptions], offsets: Offsets, loaded: LoadedOffsets) -> None:
        self._context = context
        self._offsets = offsets
        self._loaded = loaded
        self._start_at = context.options.unbounded_source.start_at
        self._log = context.log

    def record_start(self, phases: Phases, spark: SparkSession) -> Phases:
        """Return ``phases`` with the offsets from which the topic will be read. In job mode it is not read, and the
        brokers are not contacted."""
        found, is_job = self._loaded.read(), self._context.config.job_mode
        if found:
            if not is_job:
                self._check_loaded(spark, found)
            return replace(phases, start="offset_table", offsets=found)
        if is_job:
            return replace(phases, start=self._start_at)
        ends = self._ends(spark)  # a topic that does not exist is an error now, not after the tables
        self._log_start(exists=found is not None)
        return replace(phases, start=self._start_at, offsets=ends if self._start_at == "latest" else {})

    def _log_start(self, *, exists: bool) -> None:
        self._log.info(
            "the offset table %s %s: after the tables, the topic '%s' is read from %s (start_at: %s)",
            self._loaded.table,
            f"has no row for the topic '{self._loaded.topic}'" if exists else "does not exist",
            self._offsets.topic,
            "its first message" if self._start_at == "earliest" else "where it ends now",
            self._start_at,
        )

    def position(self, phases: Phases, spark: SparkSession) -> Position:
        """Return the offsets from which all partitions of the topic are read."""
        admin = self._admin(spark)
        try:
            topic = self._offsets.describe(admin)
            first = admin.earliest(self._offsets.topic, topic.partitions)
            self._check_available(phases, first)
            starts = first
            if phases.start == "latest" and not phases.offsets:  # recorded in job mode
                starts = self._offsets.latest(admin, topic.partitions)
        finally:
            admin.close()
        unknown = [partition for partition in topic.partitions if partition not in phases.offsets]
        if unknown and phases.start == "offset_table":
            self._log.info(
                "the offset table %s has no row for %s of the topic '%s': reading %s from the first message",
                self._loaded.table,
                format_partitions(frozenset(unknown)),
                self._offsets.topic,
                "it" if len(unknown) == 1 else "them",
            )
        return self._offsets.position_at(topic, {**starts, **phases.offsets})

    def _ends(self, spark: SparkSession) -> dict[int, int]:
        admin = self._admin(spark)
        try:
            return self._offsets.latest(admin, self._offsets.describe(admin).partitions)
        finally:
            admin.close()

    def _check_loaded(self, spark: SparkSession, loaded: Mapping[int, int]) -> None:
        """Raise if the topic does not continue what has been loaded: better now than after hours of reading."""
        admin = self._admin(spark)
        try:
            partitions = self._offsets.describe(admin).partitions
            first = admin.earliest(self._offsets.topic, partitions)
            end = admin.latest(self._offsets.topic, partitions)
        finally:
            admin.close()
        for partition, offset in loaded.items():
            says = f"the offset table {self._loaded.table} has offset {offset} for partition {partition}"
            topic = f"the topic '{self._offsets.topic}'"
            if partition not in end:
                raise self._error(f"{says}, but {topic} has only {_count(partitions)}")
            if offset > end[partition]:
                raise self._error(f"{says}, but {topic} ends at offset {end[partition]} there")
            if offset < first[partition]:
                raise self._error(
                    f"{says}, but {topic} starts at offset {first[partition]} there: {first[partition] - offset:,} "
                    "messages are neither in ClickHouse nor in the topic"
                )

    def _error(self, message: str) -> StreamlingError:
        return StreamlingError.user(
            message, remedy="check that the table is about this topic and these brokers, or correct the row"
        )

    def _check_available(self, phases: Phases, first: Mapping[int, int]) -> None:
        for partition, offset in phases.offsets.items():
            if partition not in first:
                raise StreamlingError.user(
                    f"partition {partition} of the topic '{self._offsets.topic}' no longer exists: the topic was "
                    "recreated while the tables were read",
                    remedy="clear the state with 'streamling state reset' and run the pipeline again",
                )
            if offset < first[partition]:
                raise StreamlingError.user(
                    f"the topic '{self._offsets.topic}' has to be read from offset {offset} of partition {partition}, "
                    f"but it now starts at offset {first[partition]}: {first[partition] - offset:,} messages were "
                    "deleted while the tables were read",
                    remedy="set the retention of the topic to more than the time that reading the tables takes, clear "
                    "the state with 'streamling state reset' and run the pipeline again",
                )

    def _admin(self, spark: SparkSession) -> KafkaAdmin:
        config = self._context.config.part(KafkaConfig).kafka_source
        return KafkaAdmin(spark, client_settings(config, SECTION))


def _count(partitions: Collection[int]) -> str:
    return "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"
