"""The configuration of the connectors that consist of a single module."""

from __future__ import annotations

from pydantic import Field

from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.grants import FREE
from streamling.pipeline.config.section import Section


class PrintSinkSettings(Section):
    """Settings of the print sink."""

    sample_every: int = Field(default=1, ge=1, json_schema_extra=FREE, description="Print every nth row.")
    num_records_before_stop: int | None = Field(
        default=None, ge=1, json_schema_extra=FREE, description="Stop the pipeline after this many rows."
    )


class PrintConfig(CoreConfig):
    """Settings that the print sink adds to the configuration."""

    print_sink: PrintSinkSettings = Field(default=PrintSinkSettings())
