"""Kafka source: rows of a topic."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from streamling.pipeline.options import Options, Parallel, SourceOptions
from streamling.pipeline.scalars import BadValueError, Duration, folded
from streamling.pipeline.typenames import TypeName

_U32 = 2**32 - 1
SchemaId = Annotated[int, Field(ge=0, le=_U32)]


def _starting_offsets(value: object) -> object:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and text not in ("earliest", "latest") and not (text.isascii() and text.isdigit()):
        raise BadValueError(
            f"is '{text}', which is no place to start", "write earliest, latest, or milliseconds since 1970"
        )
    return text


StartingOffsets = Annotated[
    str,
    BeforeValidator(_starting_offsets),
    WithJsonSchema({"anyOf": [{"enum": ["earliest", "latest"]}, {"type": "integer", "minimum": 0}]}),
]


class SchemaIdOverride(Options):
    """Reads messages framed with one schema id as if they had another."""

    from_: SchemaId = Field(alias="from", description="Schema id in the message.")
    to: SchemaId = Field(description="Schema id to decode with.")


class AvroDecoding(Options):
    """Fields on how Avro messages are decoded, shared by the Kafka and hybrid sources."""

    validate_writer_schema_ordering: bool = Field(
        default=True, description="React to messages written with a newer schema than the one read with."
    )
    schema_id_overrides: list[SchemaIdOverride] = Field(
        default=[], description="Schema ids to replace before decoding."
    )
    skip_schema_resolution: bool = Field(
        default=False,
        description="Decode with the writer's schema, without resolving it against the reader's.",
    )
    skip_schema_resolution_for_reader_schema_ids: list[SchemaId] = Field(
        default=[], description="The same, only while the reader's schema has one of these ids."
    )

    def check_overrides(self, topic: str) -> None:
        """Each schema id may be overridden once."""
        ids = [override.from_ for override in self.schema_id_overrides]
        twice = next((id for id in ids if ids.count(id) > 1), None)
        if twice is not None:
            raise BadValueError(
                f"of topic '{topic}' overrides the schema id {twice} twice",
                "keep one 'from' per id",
                field="schema_id_overrides",
            )


class KafkaSourceOptions(AvroDecoding, Parallel, SourceOptions):
    """Rows of a Kafka topic, Avro with a schema registry or JSON with a declared schema."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"topic"})
    infers_primary_key: ClassVar[bool] = True

    topic: str = Field(min_length=1, description="Topic to read.")
    starting_offsets: StartingOffsets = Field(
        default="earliest",
        description="Where to start without a stored position: earliest, latest, or milliseconds since 1970.",
    )
    include_metadata: bool = Field(
        default=False,
        description="Add the columns `__kafka_partition`, `__kafka_offset` and `__kafka_timestamp`.",
    )
    filter: str | None = Field(default=None, description="SQL condition; rows that do not meet it are dropped.")
    batch_size: int | None = Field(
        default=None, ge=1, le=_U32, description="Rows per batch; config `record_batch_size` by default."
    )
    batch_flush_interval: Duration | None = Field(
        default=None,
        description="Longest wait for a full batch; config `record_batch_interval_ms` by default.",
    )
    data_format: Annotated[Literal["avro", "json"], BeforeValidator(folded)] = Field(
        default="avro", description="Encoding of the messages."
    )
    schema_: dict[str, TypeName] | None = Field(
        default=None, alias="schema", description="Columns and their types; for `data_format: json` only."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_overrides(self.topic)
        if self.data_format == "json" and not self.schema_:
            raise BadValueError(
                "is missing, and data_format json needs it",
                "list the columns and their types",
                field="schema",
            )
        if self.data_format == "avro" and self.schema_ is not None:
            raise BadValueError(
                "is given, but data_format avro takes the columns from the schema registry",
                "remove it, or set data_format: json",
                field="schema",
            )
        return self
