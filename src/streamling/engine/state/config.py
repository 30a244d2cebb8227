"""The configuration of state backends that need no server."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from streamling.pipeline.config import values
from streamling.pipeline.config.section import Section, no_effect


class SqliteStateConfig(Section):
    """The state file."""

    database_path: values.LocalPath = Field(
        default=Path("./state.db"),
        validate_default=True,
        description="State file, created when missing.",
    )
    max_connections: int | None = Field(
        default=None,
        ge=1,
        json_schema_extra=no_effect("one connection writes the file"),
        description="No effect: one connection writes the file.",
    )
    state_table_name: str = Field(default="state", description="Table of the entries.")
