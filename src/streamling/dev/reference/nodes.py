"""Generates tables of node fields for the documentation from the models.

A page marks a table with ``<!-- fields: source kafka -->`` and ``<!-- end -->``; the text in between is replaced.
``<!-- variants: source file mode -->`` marks a table of the mappings that a field may have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry

_MARK = re.compile(r"(<!-- fields: (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_VARIANTS_MARK = re.compile(r"(<!-- variants: (\w+) (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SHARED = ("primary_key", "batch_size", "batch_flush_interval", "parallelism", "errors", "telemetry")
_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def with_field_tables(page: str, registry: Registry) -> str:
    """Return ``page`` with its tables regenerated."""
    page = _MARK.sub(lambda mark: f"{mark[1]}{field_table(registry, mark[2], mark[3])}{mark[4]}", page)
    return _VARIANTS_MARK.sub(
        lambda mark: f"{mark[1]}{variant_table(registry, mark[2], mark[3], mark[4])}{mark[5]}", page
    )


def field_table(registry: Registry, kind: str, id: str) -> str:
    """Return the fields of a node type as a Markdown table."""
    schema = _schema(registry, kind, id)
    required = schema.get("required", [])
    rows = [
        f"| {_name(name, required)} | {_type(field, schema)} | {_default(field)} | {field['description']} |"
        for name, field in sorted(schema["properties"].items(), key=lambda item: _rank(item[0], required))
        if name != "type" and not field.get("deprecated")
    ]
    return "\n".join(["| Field | Value | Default | Meaning |", "|---|---|---|---|", *rows, ""])


def variant_table(registry: Registry, kind: str, id: str, field: str) -> str:
    """Return the mappings that a field may have as a Markdown table: what distinguishes them, what they mean, their
    fields."""
    schema = _schema(registry, kind, id)
    union = _variants(schema["properties"][field], schema)
    tag = union["discriminator"]["propertyName"]
    variants = [dereference(part, schema) for part in union["oneOf"]]
    shared = [name for name in variants[0]["properties"] if all(name in each["properties"] for each in variants)]
    rows = [
        f"| `{each['properties'][tag]['const']}` | {' '.join(each['description'].split())} "
        f"| {_described(each, set(each['properties']) - set(shared), schema)} |"
        for each in variants
    ]
    if shared != [tag]:
        rows.append(f"| all of them | | {_described(variants[0], set(shared) - {tag}, schema)} |")
    return "\n".join([f"| `{tag}` | Meaning | Fields |", "|---|---|---|", *rows, ""])


def _described(model: Field, names: set[str], root: Field) -> str:
    """Return the fields ``names`` of ``model``, one per line of a table cell."""
    lines = []
    for name, field in model["properties"].items():
        if name in names:
            default = default_text(field)
            kind = _type(field, root) + ("" if default is None else f", default `{default}`")
            lines.append(f"{_name(name, model.get('required', []))} ({kind}): {field['description']}")
    return "<br>".join(lines)


def _variants(field: Field, root: Field) -> Field:
    """Return the union of mappings that a field, an entry of a map, or one of several forms of it may be."""
    field = dereference(field, root)
    if "discriminator" in field:
        return field
    inside = [field["additionalProperties"]] if "additionalProperties" in field else alternatives(field) or []
    return next((found for each in inside if (found := _variants(each, root))), {})


def _schema(registry: Registry, kind: str, id: str) -> Field:
    node_type = registry.get(NodeKind(kind), id)
    if node_type is None:
        raise KeyError(f"there is no {kind} type '{id}'")
    return node_type.options.model_json_schema(by_alias=True)


def _rank(name: str, required: list[str]) -> tuple[bool, bool, int]:
    """Rank required fields first, fields common to all nodes last."""
    return name not in required, name in _SHARED, _SHARED.index(name) if name in _SHARED else 0


def _name(name: str, required: list[str]) -> str:
    return f"**`{name}`**" if name in required else f"`{name}`"


def _default(field: Field) -> str:
    text = default_text(field)
    return "" if text is None else f"`{text}`"


def _type(field: Field, root: Field) -> str:
    """Return a JSON Schema type in words."""
    field = dereference(field, root)
    if "discriminator" in field:
        tags = ", ".join(f"`{tag}`" for tag in field["discriminator"]["mapping"])
        return f"mapping with `{field['discriminator']['propertyName']}` {tags}"
    if (parts := alternatives(field)) is not None:
        return " or ".join(dict.fromkeys(_type(part, root) for part in parts))
    if (values := literals(field)) is not None:
        return ", ".join(f"`{value}`" for value in values)
    if field.get("type") == "array":
        return f"list of {_type(field['items'], root)}"
    if field.get("type") == "object":
        return _object(field, root)
    if isinstance(field.get("type"), list):
        return " or ".join(_TYPES[name] for name in field["type"])
    examples = field.get("examples")
    example = f" such as `{examples[0]}`" if examples else ""
    return _TYPES.get(field.get("type", ""), "any") + example + bounds_text(field)


def _object(field: Field, root: Field) -> str:
    if "properties" in field:
        return "mapping of " + ", ".join(f"`{name}`" for name in field["properties"])
    values = field.get("additionalProperties")
    return f"map of name to {_type(values, root)}" if isinstance(values, dict) else "mapping"


Field = Mapping[str, Any]


def dereference(field: Field, root: Field) -> Field:
    """Return ``field`` itself, or the definition in ``root`` that it refers to."""
    while "$ref" in field:
        field = root["$defs"][field["$ref"].rsplit("/", 1)[-1]]
    return field


def alternatives(field: Field) -> Sequence[Field] | None:
    """Return the schemas of which a value matches one, without null; None if ``field`` has a single one."""
    for several in ("anyOf", "oneOf"):
        if several in field:
            return [part for part in field[several] if part.get("type") != "null"]
    return None


def literals(field: Field) -> Sequence[Any] | None:
    """Return the only values that are allowed; None if ``field`` does not list them."""
    if "const" in field:
        return [field["const"]]
    return field.get("enum")


def default_text(field: Field) -> str | None:
    """Return the default as it is written in a file; None if there is none, or an empty one."""
    value = field.get("default")
    if value is None or value in ({}, []):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def bounds_text(field: Field) -> str:
    """Return the least and the greatest number, with a space before each."""
    low, high = field.get("minimum"), field.get("maximum")
    return (f" ≥ {low}" if low is not None else "") + (f" ≤ {high}" if high is not None else "")
