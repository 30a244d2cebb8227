"""The configuration of dynamic tables."""

from __future__ import annotations

from pydantic import Field

from streamling.connectors.postgres.config import PostgresTableSettings
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.grants import AT_MOST
from streamling.pipeline.config.section import Section


class DynamicTableSettings(Section):
    """Settings of dynamic tables."""

    postgres: PostgresTableSettings = Field(default=PostgresTableSettings())
    max_batch_size: int = Field(
        default=1000, ge=1, json_schema_extra=AT_MOST, description="Values per look-up or append."
    )


class DynamicTableConfig(CoreConfig):
    """Settings that dynamic tables add to the configuration."""

    dynamic_table_backend: DynamicTableSettings = Field(default=DynamicTableSettings())
