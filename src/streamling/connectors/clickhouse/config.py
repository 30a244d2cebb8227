"""How the ClickHouse source and sink connect to their server."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, SecretStr, model_validator

from streamling.config import values
from streamling.config.core import CoreConfig
from streamling.config.section import Section
from streamling.config.values import folded
from streamling.document.scalars import Duration

_EMPTY = SecretStr("")

Compression = Annotated[Literal["none", "gzip", "zstd", "lz4"], folded("none", "gzip", "zstd", "lz4")]


class ClickHouse(Section):
    """A ClickHouse server."""

    no_effect = "this version checks ClickHouse nodes, but cannot run them"

    url: values.Url = Field(default="http://localhost:8123", description="URL of the HTTP interface.")
    user: str = Field(default="default", description="User.")
    password: SecretStr = Field(default=_EMPTY, description="Password.")
    database: str = Field(default="default", description="Database.")


class ClickHouseSource(ClickHouse):
    """Settings of the ClickHouse source."""

    page_size: int = Field(default=10_000_000, ge=1, description="Rows per page within one key that has many rows.")
    sort_key_range: int = Field(
        default=1_000_000,
        ge=100,
        validation_alias=AliasChoices("sort_key_range", "block_range"),
        description="Width of the key range that one query reads.",
    )
    query_timeout_sec: float = Field(default=60, gt=0, description="Time limit for one query.")


class ClickHouseSink(ClickHouse):
    """Settings of the ClickHouse sink."""

    compression: Compression = Field(default="zstd", description="Compression of requests.")
    compression_level: int = Field(default=6, ge=0, le=22, description="Compression level; gzip allows at most 9.")
    batch_size: int = Field(default=100_000, ge=1, description="Rows per insert.")
    batch_flush_interval: Duration = Field(default=1.0, description="Longest wait for a full batch.")

    @model_validator(mode="after")
    def _level_fits(self) -> Self:
        if self.compression == "gzip" and self.compression_level > 9:
            raise ValueError(f"clickhouse_sink.compression_level is {self.compression_level}, expected 0 to 9 for gzip")
        return self


class ClickHouseConfig(CoreConfig):
    """Settings that the ClickHouse source and sink add to the configuration."""

    clickhouse_source: ClickHouseSource = Field(default=ClickHouseSource())
    clickhouse_sink: ClickHouseSink = Field(default=ClickHouseSink())
