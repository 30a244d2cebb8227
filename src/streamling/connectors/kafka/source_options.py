"""Options of the Kafka source."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from streamling.connectors.kafka.filter import SourceFilter
from streamling.pipeline.document.scalars import BadValueError, Duration, ProgramText, folded, parse_duration
from streamling.pipeline.options import DeadLetterOptions, Options, ParallelOptions, SourceOptions
from streamling.pipeline.typenames import TypeName

_U32 = 2**32 - 1
SchemaId = Annotated[int, Field(ge=0, le=_U32)]


def _starting_offsets(value: object) -> object:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and text not in ("earliest", "latest") and not (text.isascii() and text.isdigit()):
        raise BadValueError(
            f"is '{text}', which is not a valid starting offset", "write earliest, latest, or milliseconds since 1970"
        )
    return text


StartingOffsets = Annotated[
    str,
    BeforeValidator(_starting_offsets),
    WithJsonSchema({"anyOf": [{"enum": ["earliest", "latest"]}, {"type": "integer", "minimum": 0}]}),
]


#: seconds for which messages may wait for others, so that they share a batch
_PACES: Final = {"standard": 0.01, "realtime": 0.0}
_LONGEST_PACE = 60.0


def _latency(value: object) -> object:
    text = folded(value)
    if text in _PACES:
        return text
    seconds = parse_duration(value)
    if not isinstance(seconds, float | int) or not 0 < seconds <= _LONGEST_PACE:
        raise BadValueError(
            f"is '{value}', which is not a valid latency",
            "write standard, realtime, or a duration of up to 1m, such as 500ms",
        )
    return float(seconds)


#: the word, or seconds
Latency = Annotated[
    Literal["standard", "realtime"] | float,
    BeforeValidator(_latency),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["standard", "realtime"]},
                {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*[a-zA-Zµ]+\s*)+$"},
            ],
            "default": "standard",
        }
    ),
]


class SchemaIdOverride(Options):
    """Decodes messages framed with one schema id as if they had another."""

    from_: SchemaId = Field(alias="from", description="Schema id in the message.")
    to: SchemaId = Field(description="Schema id to decode with.")


class AvroDecoding(Options):
    """Fields on how Avro messages are decoded, shared by the Kafka and hybrid sources."""

    validate_writer_schema_ordering: bool = Field(
        default=True, description="Refresh the reader schema when a message was written with a newer one."
    )
    schema_id_overrides: list[SchemaIdOverride] = Field(
        default=[], description="Schema ids to replace before decoding."
    )
    skip_schema_resolution: bool = Field(
        default=False,
        description="Decode with the writer's schema, without resolving it against the reader's.",
    )
    skip_schema_resolution_for_reader_schema_ids: list[SchemaId] = Field(
        default=[], description="The same, but only while the reader's schema has one of these ids."
    )

    def check_overrides(self, topic: str) -> None:
        """Check that each schema id is overridden at most once."""
        ids = [override.from_ for override in self.schema_id_overrides]
        twice = next((id for id in ids if ids.count(id) > 1), None)
        if twice is not None:
            raise BadValueError(
                f"of topic '{topic}' overrides the schema id {twice} twice",
                "keep one 'from' per id",
                field="schema_id_overrides",
            )


class KafkaSourceOptions(AvroDecoding, ParallelOptions, DeadLetterOptions, SourceOptions):
    """Reads a Kafka topic: Avro with a schema registry, or JSON with a declared schema."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"topic"})
    infers_primary_key: ClassVar[bool] = True
    may_delete: ClassVar[bool] = True

    topic: str = Field(min_length=1, description="Topic to read.")
    parallelism: int | None = Field(
        default=None,
        ge=1,
        description="Number of tasks that read concurrently, each reading whole partitions; defaults to the number "
        "of cores.",
    )
    starting_offsets: StartingOffsets = Field(
        default="earliest",
        description="Where to start if no position is stored: earliest, latest, or milliseconds since 1970.",
    )
    isolation_level: Annotated[Literal["read_committed", "read_uncommitted"], BeforeValidator(folded)] = Field(
        default="read_committed",
        description="Skip messages of open and aborted transactions (read_committed), or read them too "
        "(read_uncommitted).",
    )
    include_metadata: bool = Field(
        default=False,
        description="Add the columns `__kafka_partition`, `__kafka_offset` and `__kafka_timestamp`.",
    )
    filter: ProgramText | None = Field(default=None, description="SQL condition; rows that do not match are dropped.")
    batch_size: int | None = Field(
        default=None,
        ge=1,
        le=_U32,
        description="Maximum number of messages per batch; defaults to 200 000, or a million if the rows stay in "
        "Spark.",
    )
    batch_flush_interval: Duration | None = Field(
        default=None,
        description="Maximum wait for a full batch; by default a batch starts as soon as there are messages.",
    )
    latency: Latency = Field(
        default="standard",
        description="How long messages may wait for others that share their batch: `standard` is 10 ms; a duration "
        "such as `500ms` costs less CPU time; with `realtime` they do not wait, and nodes at which rows would wait are "
        "refused.",
    )
    data_format: Annotated[Literal["avro", "json"], BeforeValidator(folded)] = Field(
        default="avro", description="Encoding of the messages."
    )
    schema_: dict[str, TypeName] | None = Field(
        default=None, alias="schema", description="Columns and their types; only for `data_format: json`."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_overrides(self.topic)
        if self.latency == "realtime" and self.batch_flush_interval is not None:
            raise BadValueError(
                "is set, but latency realtime does not let messages wait",
                "remove it, or set latency: standard",
                field="batch_flush_interval",
            )
        if self.data_format == "json" and not self.schema_:
            raise BadValueError(
                "is missing, but data_format json requires it",
                "list the columns and their types",
                field="schema",
            )
        if self.data_format == "avro" and self.schema_ is not None:
            raise BadValueError(
                "is set, but data_format avro takes the columns from the schema registry",
                "remove it, or set data_format: json",
                field="schema",
            )
        return self

    @cached_property
    def row_filter(self) -> SourceFilter | None:
        return SourceFilter(self.filter) if self.filter is not None and self.filter.strip() else None

    @property
    def pace(self) -> float:
        """Seconds for which messages may wait for others."""
        return _PACES[self.latency] if isinstance(self.latency, str) else self.latency
