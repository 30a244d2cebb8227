"""The fields of nodes in a pipeline file, as typed models.

A field's name, type, default, help text, bounds and secrecy are declared once, here or in the options class of a node
type; the parser, the JSON schema, redaction and the docs tables are derived from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from streamling.pipeline.document.scalars import Duration, PrimaryKey
from streamling.pipeline.labels import Labels

if TYPE_CHECKING:
    from streamling.pipeline.config import AppConfig
    from streamling.sql.statement import Lookup, Statement


class Options(BaseModel):
    """Base of all models of the pipeline file: unknown fields are errors, nothing is converted silently (a number in
    quotes is not a number), and values are immutable."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, populate_by_name=True, hide_input_in_errors=True
    )


class EventTime(Options):
    """Which column carries the event time."""

    column: str = Field(description="Column with the event time.")
    unit: Literal["seconds", "milliseconds", "microseconds"] | None = Field(
        default=None,
        description="Unit of an integer column; timestamps need none.",
    )


class Telemetry(Options):
    """Metrics of one node."""

    event_time: EventTime | None = Field(default=None, description="Event-time lag and watermark of this node.")
    labels: Labels = Field(default_factory=dict, description="Extra labels on every metric of this node (≤ 20).")


class NodeOptions(Options):
    """Fields every node has."""

    #: label keys that this node type sets itself
    reserved_labels: ClassVar[frozenset[str]] = frozenset()
    #: False if nodes of this type have no output, so that nothing can read from them
    emits_rows: ClassVar[bool] = True
    #: True if a node of this type needs a key, its own or an inherited one
    requires_primary_key: ClassVar[bool] = False

    type: str = Field(description="Node type: a built-in or the id of a plugin.")
    primary_key: PrimaryKey = Field(
        default=(), description="Key columns, comma-separated; by default those of the upstream or of the source."
    )
    telemetry: Telemetry = Field(default_factory=Telemetry, description="Metric settings of this node.")

    def with_config_defaults(self, config: AppConfig) -> Self:
        """Return these options with the defaults that the configuration sets for all nodes of the type."""
        return self

    def ineffective(self) -> Mapping[str, str]:
        """Return the fields that are set but have no effect, with the reason."""
        return {}

    def upstreams(self) -> Sequence[str]:
        """Return the names of the nodes this one reads, as written. Sources read none."""
        return ()

    def mention_of(self, upstream: str) -> tuple[str, int]:
        """Return the field that contains the name ``upstream``, and the offset in its text."""
        return "from", 0

    def lookups(self) -> Sequence[Lookup]:
        """Return the dynamic tables that this node queries, as written."""
        return ()

    @property
    def dead_letters(self) -> str | None:
        """The sink that takes the rows that this node rejects, as written; None: such a row stops the pipeline."""
        return None

    @property
    def rows_per_batch(self) -> int | None:
        """Rows that the engine collects before it calls the node; None: batches as they arrive."""
        return None

    @property
    def flush_interval(self) -> float | None:
        """Seconds after which collected rows are passed on even if there are fewer; None: no limit."""
        return None

    @property
    def instance_count(self) -> int:
        """How many instances of the node run in parallel."""
        return 1


class ParallelOptions(NodeOptions):
    """Mix-in for nodes that can run as several instances."""

    parallelism: int | None = Field(default=None, ge=1, description="Number of instances that run in parallel.")

    @property
    def instance_count(self) -> int:
        return self.parallelism or 1


class SqlOptions(NodeOptions):
    """Mix-in for nodes whose SQL says what they read."""

    @property
    def statement(self) -> Statement | None:
        """The SQL, parsed when it is first asked for. Raises `InvalidSql`: the parser of the pipeline file reports it
        with its location."""
        raise NotImplementedError

    def upstreams(self) -> Sequence[str]:
        return () if self.statement is None else tuple(self.statement.nodes)

    def mention_of(self, upstream: str) -> tuple[str, int]:
        return "sql", 0 if self.statement is None else self.statement.nodes.get(upstream, 0)


class BatchOptions(NodeOptions):
    """Mix-in for nodes in front of which rows are collected into batches."""

    batch_size: int | None = Field(
        default=None, ge=0, description="Rows per call of this node; 0: batches as they arrive."
    )
    batch_flush_interval: Duration | None = Field(
        default=None, description="Maximum wait for a full batch, such as 500ms or 1s."
    )

    @property
    def rows_per_batch(self) -> int | None:
        return self.batch_size or None

    @property
    def flush_interval(self) -> float | None:
        return self.batch_flush_interval


class UpstreamOptions(NodeOptions):
    """Mix-in for nodes that name one upstream with ``from``."""

    from_: str = Field(alias="from", description="Name of the source or transform whose rows this node takes.")

    def upstreams(self) -> Sequence[str]:
        return (self.from_,)


class ErrorSettings(Options):
    """What happens to rows that a node cannot use."""

    to: str = Field(min_length=1, description="Name of the sink that takes them.")


class DeadLetterOptions(NodeOptions):
    """Mix-in for nodes that can do without the rows they cannot use."""

    errors: ErrorSettings | None = Field(
        default=None,
        description="Sink for the rows that this node rejects; without it, the first one stops the pipeline.",
    )

    @property
    def dead_letters(self) -> str | None:
        return None if self.errors is None else self.errors.to


class FreeFormOptions(NodeOptions):
    """Base for plugins that accept any other field; their values are in ``model_extra``, as text. If a class has
    several bases, this one has to be the last: pydantic takes the settings of a model from there."""

    model_config = ConfigDict(extra="allow")


class SourceOptions(NodeOptions):
    """Fields every source has."""

    #: True if such a source may know its key (`AnySource.inferred_primary_key`)
    infers_primary_key: ClassVar[bool] = False
    #: True if its rows may be updates and deletes; what they are shows only in the data
    may_delete: ClassVar[bool] = False

    @property
    def supports_job_mode(self) -> bool:
        """Whether the source can run in job mode: it ends, and the pipeline ends with it."""
        return False


class TransformOptions(NodeOptions):
    """Fields every transform has."""


class SinkOptions(NodeOptions):
    """Fields every sink has."""

    #: True if the target has columns of its own, so that a row with another column cannot be written
    has_fixed_columns: ClassVar[bool] = False
    #: True if a row replaces the one with the same key; without a key, rows are appended
    upserts: ClassVar[bool] = False

    @property
    def rejecting_changes(self) -> Sequence[str]:
        """The fields that make the sink reject updates and deletes, by their path."""
        return ()

    from_: str | None = Field(
        default=None,
        alias="from",
        description="Name of the source or transform whose rows this node takes; only a dead-letter sink has none.",
    )

    def upstreams(self) -> Sequence[str]:
        return () if self.from_ is None else (self.from_,)


def dump(options: NodeOptions) -> dict[str, Any]:
    """Return the fields that the user has set, by their names in the file; secrets are masked."""
    return options.model_dump(mode="json", by_alias=True, exclude_unset=True)
