"""Generates tables of node fields for the documentation from the models.

A page marks a table with ``<!-- fields: source kafka -->`` and ``<!-- end -->``; the text in between is replaced by
``python -m streamling.reference.nodes docs/pipeline-file.md``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry

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


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    if value is None or value == {} or value == []:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _type(field: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """A JSON Schema type in words."""
    if "$ref" in field:
        return _type(root["$defs"][field["$ref"].rsplit("/", 1)[-1]], root)
    for several in ("anyOf", "oneOf"):
        if several in field:
            parts = [_type(part, root) for part in field[several] if part.get("type") != "null"]
            return " or ".join(dict.fromkeys(parts))
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list of {_type(field['items'], root)}"
    if field.get("type") == "object":
        return _object(field, root)
    if isinstance(field.get("type"), list):
        return " or ".join(_TYPES[name] for name in field["type"])
    examples = field.get("examples")
    example = f" such as `{examples[0]}`" if examples else ""
    return _TYPES.get(field.get("type", ""), "any") + example + _bounds(field)


def _object(field: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if "properties" in field:
        return "mapping of " + ", ".join(f"`{name}`" for name in field["properties"])
    values = field.get("additionalProperties")
    return f"map of name to {_type(values, root)}" if isinstance(values, dict) else "mapping"


def _bounds(field: Mapping[str, Any]) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    text = f" ≥ {low}" if low is not None else ""
    return text + (f" ≤ {high}" if high is not None else "")


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_field_tables(page.read_text(), Registry.builtin()))
