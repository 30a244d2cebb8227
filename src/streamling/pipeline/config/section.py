"""The base class of all sections of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from streamling.pipeline.config import values


def no_effect(why: str) -> dict[str, Any]:
    """Mark a setting that is accepted for compatibility with the Rust implementation: a value other than the default
    logs a warning."""
    return {"no_effect": why}


def unset_means(shown: str) -> dict[str, Any]:
    """Document what applies until a setting is set, if that is not its default; a default is also the limit for the
    pipelines of a server."""
    return {"shown_default": shown}


class Section(BaseModel):
    """Base class of all sections: immutable, never prints a secret."""

    #: why no setting of this section has an effect; None: they have
    no_effect: ClassVar[str | None] = None
    #: the section whose values replace those that are None; None: no section
    inherits: ClassVar[str | None] = None

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
        coerce_numbers_to_str=True,
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if isinstance(value, dict):
                value = values.mask_map(value)
            yield name, values.mask_url(value) if isinstance(value, str) else value

    def __str__(self) -> str:
        return repr(self)

    def explicit_value(self, name: str) -> Any | None:
        """Return the value of ``name`` if it was set explicitly, None if it has its default."""
        return getattr(self, name) if name in self.model_fields_set else None
