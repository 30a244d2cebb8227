"""ClickHouse sink: writes rows to an existing table."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, ConfigDict, Field, field_validator

from streamling.document.scalars import BadValueError, PrimaryKey
from streamling.pipeline.options import BatchOptions, ParallelOptions, SinkOptions


def _both_spellings(schema: dict[str, Any]) -> None:
    schema["properties"]["schema_overrides"] = {**schema["properties"]["schema_override"], "deprecated": True}


class ClickHouseSinkOptions(ParallelOptions, BatchOptions, SinkOptions):
    """Writes rows to a ClickHouse table; by default 100 000 per request, or once a second."""

    model_config = ConfigDict(json_schema_extra=_both_spellings)

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table"})

    table: str = Field(min_length=1, description="Table to write to; it must exist.")
    primary_key: PrimaryKey = Field(description="Key columns, comma-separated.")
    version_column_name: str | None = Field(
        default=None, description="Column that decides which of two rows with the same key is newer."
    )
    append_only_mode: bool = Field(
        default=True, description="Write deletes as rows of a ReplacingMergeTree instead of deleting."
    )
    deduplicate: bool = Field(default=True, description="Write only the last row per key of a batch.")
    schema_override: dict[str, str] = Field(
        default={},
        alias="schema_override",
        validation_alias=AliasChoices("schema_override", "schema_overrides"),
        description="ClickHouse types of columns for which the default does not fit.",
    )
    compression: Literal["none", "gzip", "zstd", "lz4"] | None = Field(
        default=None, description="Compression of requests; defaults to config `clickhouse_sink.compression`."
    )
    compression_level: int | None = Field(
        default=None,
        description="gzip level, 0 to 9; defaults to config `clickhouse_sink.compression_level`.",
    )

    @field_validator("compression_level")
    @classmethod
    def _in_range(cls, level: int | None) -> int | None:
        if level is not None and not 0 <= level <= 9:
            raise BadValueError(f"is {level}; it must be between 0 and 9")
        return level
