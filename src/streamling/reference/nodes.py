"""Generates tables of node fields for the documentation from the models.

A page marks a table with ``<!-- fields: source kafka -->`` and ``<!-- end -->``; the text in between is replaced by
``python -m streamling.reference.nodes docs/pipeline-file.md``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from streamling.reference.json_fields import Field, alternatives, bounds_text, default_text, dereference, literals

_MARK = re.compile(r"(<!-- fields: (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SHARED = ("primary_key", "batch_size", "batch_flush_interval", "parallelism", "errors", "telemetry")
_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def with_field_tables(page: str, registry: Registry) -> str:
    """``page`` with its tables regenerated."""
    return _MARK.sub(lambda mark: f"{mark[1]}{field_table(registry, mark[2], mark[3])}{mark[4]}", page)


def field_table(registry: Registry, kind: str, id: str) -> str:
    """The fields of a node type as a Markdown table."""
    node_type = registry.get(NodeKind(kind), id)
    if node_type is None:
        raise KeyError(f"there is no {kind} type '{id}'")
    schema = node_type.options.model_json_schema(by_alias=True)
    required = schema.get("required", [])
    rows = [
        f"| {_name(name, required)} | {_type(field, schema)} | {_default(field)} | {field['description']} |"
        for name, field in sorted(schema["properties"].items(), key=lambda item: _rank(item[0], required))
        if name != "type" and not field.get("deprecated")
    ]
    return "\n".join(["| Field | Value | Default | Meaning |", "|---|---|---|---|", *rows, ""])


def _rank(name: str, required: list[str]) -> tuple[bool, bool, int]:
    """Required fields first, fields common to all nodes last."""
    return name not in required, name in _SHARED, _SHARED.index(name) if name in _SHARED else 0


def _name(name: str, required: list[str]) -> str:
    return f"**`{name}`**" if name in required else f"`{name}`"


def _default(field: Field) -> str:
    text = default_text(field)
    return "" if text is None else f"`{text}`"


def _type(field: Field, root: Field) -> str:
    """A JSON Schema type in words."""
    field = dereference(field, root)
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


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_field_tables(page.read_text(), Registry.builtin()))
