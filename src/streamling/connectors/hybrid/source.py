"""Hybrid source: tables first, then the topic that continues them."""

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
    filter: ProgramText | None = Field(default=None, description="SQL condition; rows that do not meet it are dropped.")
    start_at: Literal["earliest", "latest"] = Field(
        default="earliest", description="Where to start without stored offsets."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_overrides(self.topic)
        return self


class OffsetTable(Options):
    """Table that says at which offset of the topic each partition continues the bounded phases."""

    topic_name: str = Field(min_length=1, description="Topic whose offsets are looked up.")
    table_name: str | None = Field(default=None, description="Table with the offsets.")
    topic_column: str = Field(default="topic", description="Column with the topic.")
    partition_column: str = Field(default="partition", description="Column with the partition.")
    offset_column: str = Field(default="offset", description="Column with the offset.")


class HybridSourceOptions(SourceOptions):
    """Bounded phases one after the other, then an unbounded one; in job mode it ends before that one."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table", "topic"})

    bounded_sources: list[BoundedPhase] = Field(description="Phases with an end, in order; may be empty.")
    unbounded_source: UnboundedPhase = Field(description="The phase without end.")
    offset_table: OffsetTable | None = Field(
        default=None, description="Where the unbounded phase begins; by default looked up for its topic."
    )

    @property
    def runs_as_job(self) -> bool:
        return True
