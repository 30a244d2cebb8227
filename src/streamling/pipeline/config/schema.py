"""Introspection of the configuration models: names, environment variables, expected values."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import AliasChoices, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from streamling.pipeline.config.section import Section
from streamling.pipeline.document.scalars import parse_duration

ENV_PREFIX = "STREAMLING__"

#: placeholder for a key of a map that the user chooses
ANY_NAME = "<name>"


@dataclass(frozen=True)
class Setting:
    """One property of the configuration."""

    path: tuple[str, ...]
    info: FieldInfo
    #: why the setting has no effect; None: it has one
    no_effect: str | None = None

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return variable(self.path)

    @property
    def foreign_variable(self) -> str | None:
        """A variable of another system that also sets it, and takes precedence."""
        found = self.extra("environment")
        return found if isinstance(found, str) else None

    def extra(self, name: str) -> Any:
        """Return the value of ``name`` in the field's ``json_schema_extra``."""
        return extra(self.info, name)

    def matches(self, path: tuple[str, ...]) -> bool:
        """Return whether ``path``, which has the user's names, leads to this property."""
        return len(self.path) == len(path) and self.is_below(path)

    def is_below(self, path: tuple[str, ...]) -> bool:
        """Return whether ``path``, which has the user's names, leads to this property or to a section with it."""
        return len(self.path) >= len(path) and all(a in (b, ANY_NAME) for a, b in zip(self.path, path, strict=False))


def extra(info: FieldInfo, name: str) -> Any:
    """Return the value of ``name`` in ``json_schema_extra``."""
    found = info.json_schema_extra
    return found.get(name) if isinstance(found, dict) else None


def variable(path: tuple[str, ...]) -> str:
    """Return the environment variable of the property at ``path``."""
    return ENV_PREFIX + "__".join(path).upper()


def settings(model: type[Section], path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Yield all properties of ``model``, with sections flattened, in order of declaration."""
    for name, info in fields(model).items():
        here = (*path, name)
        if section := section_of(info.annotation):
            yield from settings(section, here)
        elif section := section_of(map_value(info)):
            yield from settings(section, (*here, ANY_NAME))
        else:
            reason = extra(info, "no_effect")
            yield Setting(
                (*here, ANY_NAME) if map_value(info) else here, info, str(reason) if reason else model.no_effect
            )


def fields(model: type[Section]) -> dict[str, FieldInfo]:
    """Return the fields by their names in the file."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def aliases(model: type[Section]) -> dict[str, str]:
    """Return other accepted names → the name."""
    return {
        str(other): str(choices.choices[0])
        for info in model.model_fields.values()
        if isinstance(choices := info.validation_alias, AliasChoices)
        for other in choices.choices[1:]
    }


# ── kinds of values ─────────────────────────────────────────────────────────────────────────────────────────


def section_of(annotation: Any) -> type[Section] | None:
    """Return the section that a field holds, also if it is optional."""
    found = _without_none(annotation)
    return found if isinstance(found, type) and issubclass(found, Section) else None


def is_optional(info: FieldInfo) -> bool:
    return type(None) in get_args(info.annotation)


def map_value(info: FieldInfo) -> Any:
    """Return the type of the values of a map field; None for other fields."""
    if get_origin(info.annotation) is dict:
        value: Any = get_args(info.annotation)[1]
        return value
    return None


def is_secret(info: FieldInfo) -> bool:
    """Return whether values of this field must be masked. Maps are masked too: their content is unknown."""
    return _without_none(info.annotation) is SecretStr or map_value(info) is not None


def is_typed_secret(info: FieldInfo) -> bool:
    """Return whether the field, or each value of the map, is declared as a secret."""
    return "SecretStr" in str(info.annotation)


def is_text(info: FieldInfo) -> bool:
    return _without_none(info.annotation) in (str, SecretStr)


def expected(info: FieldInfo) -> str:
    """Return what a field accepts, for messages and docs."""
    if any(isinstance(rule, BeforeValidator) and rule.func is parse_duration for rule in info.metadata):
        return "a duration such as 500ms or 1s"
    kind = _without_none(info.annotation)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if info.examples:
        return f"text such as {info.examples[0]}"
    if get_origin(kind) is tuple:
        return "names, as a list or separated by commas"
    if get_origin(kind) is dict:
        return "a mapping"
    return f"{_KINDS[kind]}{_bounds(info)}"


_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    SecretStr: "text",
    Path: "a path",
}


def _bounds(info: FieldInfo) -> str:
    low = next((rule for rule in info.metadata if isinstance(rule, Ge | Gt)), None)
    high = next((rule.le for rule in info.metadata if isinstance(rule, Le)), None)
    if low is None:
        return ""
    if high is not None and isinstance(low, Ge):
        return f" from {low.ge} to {high}"
    return f" of at least {low.ge}" if isinstance(low, Ge) else f" above {low.gt}"


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    # `Annotated` inside an optional keeps its metadata; only the type matters here
    return annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation
