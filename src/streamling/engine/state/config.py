"""The configuration of the state backend: its type, and a block for each type that has settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, create_model, model_validator

from streamling.builtins import builtins
from streamling.pipeline.config import values
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.section import Section, no_effect


class SqliteStateSettings(Section):
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


class _StateBackend(Section):
    """Where positions are stored between runs."""

    backend_type: str = "Sqlite"

    @property
    def block(self) -> Any:
        """The settings of the chosen type; None if it has none."""
        return getattr(self, self.backend_type.lower(), None)

    @model_validator(mode="after")
    def _has_block(self) -> Self:
        block = self.backend_type.lower()
        if self.block is None and block in type(self).model_fields:
            raise ValueError(
                f"state_backend.backend_type is {self.backend_type}, but there is no state_backend.{block} block"
            )
        return self


def _blocks() -> dict[str, Any]:
    """Return the fields of `StateBackendSettings`: the type, and the blocks of all built-in backends."""
    types = tuple(sorted(type for builtin in builtins() for type in builtin.state_backends))
    chosen: Any = Annotated[Literal[types], values.folded(*types)]
    fields = {"backend_type": (chosen, Field(default="Sqlite", description="Where state is kept."))}
    for builtin in builtins():
        for name, target in builtin.state_settings.items():
            settings = builtin.load(target)
            fields[name] = (settings | None, Field(default=settings()))
    return fields


if TYPE_CHECKING:
    StateBackendSettings = _StateBackend
else:
    StateBackendSettings = create_model(
        "StateBackendSettings", __base__=_StateBackend, __doc__=_StateBackend.__doc__, **_blocks()
    )


class StateConfig(CoreConfig):
    """What the state backend adds to the configuration."""

    state_backend: StateBackendSettings = Field(default=StateBackendSettings())
