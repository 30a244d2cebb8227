"""How the ClickHouse source and sink connect to their server."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, SecretStr, model_validator

from streamling.connectors.clickhouse.compression import level_problem
from streamling.pipeline.config import values
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.grants import AT_MOST, AT_MOST_ROWS, FREE, address, credential, credential_file
from streamling.pipeline.config.section import Section
from streamling.pipeline.config.values import folded
from streamling.pipeline.document.scalars import Duration

_EMPTY = SecretStr("")

Compression = Annotated[Literal["none", "gzip", "zstd", "lz4"], folded("none", "gzip", "zstd", "lz4")]


class ClickHouseSettings(Section):
    """A ClickHouse server."""

    url: values.Url = Field(
        default="http://localhost:8123", json_schema_extra=address("server"), description="URL of the HTTP interface."
    )
    user: str = Field(default="default", json_schema_extra=credential("server"), description="User.")
    password: SecretStr = Field(default=_EMPTY, json_schema_extra=credential("server"), description="Password.")
    database: str = Field(default="default", json_schema_extra=FREE, description="Database.")
    ssl_ca_location: values.LocalPath | None = Field(
        default=None,
        json_schema_extra=credential_file("server"),
        description="PEM file with trusted certificates; defaults to those that the system trusts.",
    )


class ClickHouseSourceSettings(ClickHouseSettings):
    """Settings of the ClickHouse source."""

    page_size: int = Field(
        default=10_000_000,
        ge=1,
        json_schema_extra=AT_MOST,
        description="Most rows that one query reads; fewer if rows are wide.",
    )
    sort_key_range: int = Field(
        default=1_000_000,
        ge=100,
        validation_alias=AliasChoices("sort_key_range", "block_range"),
        json_schema_extra=FREE,
        description="How many values of an integer sorting key are counted first; the width adapts to the data.",
    )
    query_timeout_sec: float = Field(
        default=60,
        gt=0,
        json_schema_extra=AT_MOST,
        description="Seconds that a query may run; one that takes longer is divided.",
    )


class ClickHouseSinkSettings(ClickHouseSettings):
    """Settings of the ClickHouse sink."""

    compression: Compression = Field(default="zstd", json_schema_extra=FREE, description="Compression of requests.")
    compression_level: int | None = Field(
        default=None,
        json_schema_extra=FREE,
        description="Compression level: 0 to 9 for gzip (default 6), 1 to 22 for zstd (3), 1 to 12 for lz4 (1).",
    )
    batch_size: int = Field(default=100_000, ge=1, json_schema_extra=AT_MOST_ROWS, description="Rows per insert.")
    batch_flush_interval: Duration = Field(
        default=1.0, json_schema_extra=FREE, description="Maximum wait for a full batch."
    )

    @model_validator(mode="after")
    def _level_fits(self) -> Self:
        if (problem := level_problem(self.compression, self.compression_level)) is not None:
            raise ValueError(f"clickhouse_sink.compression_level {problem}")
        return self


class ClickHouseConfig(CoreConfig):
    """Settings that the ClickHouse source and sink add to the configuration."""

    clickhouse_source: ClickHouseSourceSettings = Field(default=ClickHouseSourceSettings())
    clickhouse_sink: ClickHouseSinkSettings = Field(default=ClickHouseSinkSettings())
