"""The configuration of the file source."""

from __future__ import annotations

from pydantic import Field

from streamling.pipeline.config import values
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.section import no_effect


class FileConfig(CoreConfig):
    """Settings that the file source adds to the configuration."""

    file_source: values.AnyMap = Field(
        default={},
        json_schema_extra=no_effect("the file source has no settings here"),
        description="No effect: the file source has no settings here.",
    )
