"""Hybrid source: reads tables first, then the topic that continues them."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from streamling.connectors.clickhouse.source import TableRead
from streamling.connectors.kafka.source import AvroDecoding
from streamling.document.scalars import ProgramText
from streamling.pipeline.options import Options, SourceOptions


class BoundedPhase(TableRead):
    """A table that is read to its end. Its columns are those of the topic."""

    source_type: Literal["clickhouse"] = Field(description="Kind of bounded source.")


class UnboundedPhase(AvroDecoding):
    """The topic that is read afterwards, without end."""

    source_type: Literal["kafka"] = Field(description="Kind of unbounded source.")
    topic: str = Field(min_length=1, description="Topic to read.")
    filter: ProgramText | None = Field(default=None, description="SQL condition; rows that do not match are dropped.")
    start_at: Literal["earliest", "latest"] = Field(
        default="earliest", description="Where to start if no offsets are stored."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_overrides(self.topic)
        return self


class OffsetTable(Options):
    """Table with the offset of the topic at which each partition continues the bounded phases."""

    topic_name: str = Field(min_length=1, description="Topic whose offsets are looked up.")
    table_name: str | None = Field(default=None, description="Table with the offsets.")
    topic_column: str = Field(default="topic", description="Column with the topic.")
    partition_column: str = Field(default="partition", description="Column with the partition.")
    offset_column: str = Field(default="offset", description="Column with the offset.")


class HybridSourceOptions(SourceOptions):
    """Runs bounded phases one after the other, then an unbounded one. In job mode it ends before the latter."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table", "topic"})

    bounded_sources: list[BoundedPhase] = Field(description="Bounded phases, in order; may be empty.")
    unbounded_source: UnboundedPhase = Field(description="The unbounded phase.")
    offset_table: OffsetTable | None = Field(
        default=None,
        description="Table with the offsets at which the unbounded phase starts; by default they are "
        "looked up by topic.",
    )

    @property
    def runs_as_job(self) -> bool:
        return True
