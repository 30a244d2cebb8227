"""Reads the fields of a JSON Schema, for pages that describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Field = Mapping[str, Any]


def dereference(field: Field, root: Field) -> Field:
    """``field`` itself, or the definition in ``root`` that it refers to."""
    while "$ref" in field:
        field = root["$defs"][field["$ref"].rsplit("/", 1)[-1]]
    return field


def alternatives(field: Field) -> Sequence[Field] | None:
    """The schemas of which a value matches one, without null; None if ``field`` has a single one."""
    for several in ("anyOf", "oneOf"):
        if several in field:
            return [part for part in field[several] if part.get("type") != "null"]
    return None


def literals(field: Field) -> Sequence[Any] | None:
    """The only values that are allowed; None if ``field`` does not list them."""
    if "const" in field:
        return [field["const"]]
    return field.get("enum")


def default_text(field: Field) -> str | None:
    """The default as it is written in a file; None if there is none, or an empty one."""
    value = field.get("default")
    if value is None or value in ({}, []):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def bounds_text(field: Field) -> str:
    """The least and the greatest number, with a space before each."""
    low, high = field.get("minimum"), field.get("maximum")
    return (f" ≥ {low}" if low is not None else "") + (f" ≤ {high}" if high is not None else "")
