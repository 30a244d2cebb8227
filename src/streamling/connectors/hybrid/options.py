"""The fields of a hybrid source in a pipeline file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from streamling.connectors.clickhouse.source import TableRead
from streamling.connectors.kafka.source_options import AvroDecoding, KafkaSourceOptions
from streamling.errors import OptionLocation, StreamlingError
from streamling.pipeline.document.scalars import Columns, ProgramText
from streamling.pipeline.options import DeadLetterOptions, Options, SourceOptions


class BoundedPhase(TableRead):
    """A table that is read to its end. Its columns are those of the topic."""

    source_type: Literal["clickhouse"] = Field(description="Kind of bounded source.")
    columns: Columns | None = Field(default=None, description="Ignored: the columns are those of the topic.")


class UnboundedPhase(AvroDecoding):
    """The topic that is read afterwards, without end."""

    source_type: Literal["kafka"] = Field(description="Kind of unbounded source.")
    topic: str = Field(min_length=1, description="Topic to read.")
    filter: ProgramText | None = Field(default=None, description="SQL condition; rows that do not match are dropped.")
    start_at: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where to start if the offset table has no offsets: at the first message, or at the end that the "
        "topic had when the first bounded phase started.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_overrides(self.topic)
        return self


class OffsetTable(Options):
    """Table with the offset of the topic at which each partition continues the bounded phases."""

    topic_name: str = Field(min_length=1, description="Topic whose offsets are looked up.")
    table_name: str = Field(default="kafka_offsets", min_length=1, description="Table with the offsets.")
    topic_column: str = Field(default="topic", min_length=1, description="Column with the topic.")
    partition_column: str = Field(default="partition", min_length=1, description="Column with the partition.")
    offset_column: str = Field(
        default="offset", min_length=1, description="Column with the offset of the next message to read."
    )


class HybridSourceOptions(DeadLetterOptions, SourceOptions):
    """Reads tables one after the other, then the topic that continues them. In job mode it ends before the topic."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table", "topic"})
    may_delete: ClassVar[bool] = True

    bounded_sources: list[BoundedPhase] = Field(description="Bounded phases, in order; may be empty.")
    unbounded_source: UnboundedPhase = Field(description="The unbounded phase.")
    offset_table: OffsetTable | None = Field(
        default=None,
        description="ClickHouse table with the offsets at which the topic continues the tables; by default the table "
        "`kafka_offsets`, if it exists.",
    )

    @property
    def supports_job_mode(self) -> bool:
        return True

    def ineffective(self) -> Mapping[str, str]:
        ignored = {
            f"bounded_sources[{number}].columns": "the columns are those of the topic"
            for number, phase in enumerate(self.bounded_sources)
            if phase.columns is not None
        }
        return {**super().ineffective(), **ignored}

    @property
    def kafka(self) -> KafkaSourceOptions:
        """The options of a Kafka source that reads the unbounded phase."""
        phase = self.unbounded_source
        decoding = {name: getattr(phase, name) for name in AvroDecoding.model_fields}
        return KafkaSourceOptions(
            type="kafka",
            topic=phase.topic,
            starting_offsets=phase.start_at,
            filter=phase.filter,
            errors=self.errors,
            primary_key=self.primary_key,
            **decoding,
        )


def locate_error(error: StreamlingError, phase: str, field: str) -> StreamlingError:
    """Return an error of a phase with its name, and with the place of its options in the file: those that the error is
    about, or ``field``."""
    if not error.internal:
        at = error.option_location or OptionLocation(field)
        error.about(f"{phase}.{at.field}", at.line, at.column, at.note)
    return error.context(phase)
