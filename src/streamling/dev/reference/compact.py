"""The fields of all node types in a form short enough for the context of a coding assistant.

They replace what is between ``<!-- node types -->`` and ``<!-- end -->`` on a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamling.dev.reference.nodes import Field, alternatives, bounds_text, default_text, dereference, literals
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry

_MARK = re.compile(r"(<!-- node types -->\n).*?(<!-- end -->)", re.DOTALL)
#: described once on the page
_SHARED = ("from", "primary_key", "batch_size", "batch_flush_interval", "parallelism", "errors", "telemetry")
_TYPES = {"string": "text", "boolean": "true | false", "null": "null"}


def with_node_types(page: str, registry: Registry) -> str:
    """Return ``page`` with its list of node types regenerated."""
    return _MARK.sub(lambda mark: f"{mark[1]}{node_types(registry)}{mark[2]}", page)


def node_types(registry: Registry) -> str:
    """Return every node type with its fields, as a fenced block."""
    types = [found for kind in NodeKind for id in registry.ids(kind) if (found := registry.get(kind, id))]
    blocks = ["\n".join(_node_type(found.kind, found.id, found.options.model_json_schema())) for found in types]
    return "```text\n" + "\n\n".join(blocks) + "\n```\n"


def _node_type(kind: NodeKind, id: str, schema: Field) -> Iterator[str]:
    required = schema.get("required", [])
    fields = {name: field for name, field in schema["properties"].items() if not field.get("deprecated")}
    yield f"{kind} {id}"
    for name in sorted(fields, key=lambda name: name not in required):
        if name != "type" and name not in _SHARED:
            field = fields[name]
            star = "*" if name in required else ""
            yield f"  {name}{star}: {_type(field, schema)}{_default(field)} -- {field['description']}"
    shared = [f"{name}*" if name in required else name for name in _SHARED if name in fields]
    yield f"  shared: {', '.join(shared)}"


def _default(field: Field) -> str:
    text = default_text(field)
    return "" if text is None else f" = {text}"


def _type(field: Field, root: Field) -> str:
    """Return a JSON Schema type on one line."""
    field = dereference(field, root)
    if (parts := alternatives(field)) is not None:
        return " | ".join(dict.fromkeys(_type(part, root) for part in parts))
    if (values := literals(field)) is not None:
        return " | ".join(map(str, values))
    if field.get("type") == "array":
        return f"[{_type(field['items'], root)}, …]"
    if field.get("type") == "object":
        return _mapping(field, root)
    if isinstance(field.get("type"), list):
        return " | ".join(_type({**field, "type": name}, root) for name in field["type"])
    if field.get("type") in ("integer", "number"):
        return f"{field['type']}{bounds_text(field)}"
    return _TYPES.get(field.get("type", ""), "any value")


def _mapping(field: Field, root: Field) -> str:
    if "properties" in field:
        required = field.get("required", [])
        inner = (
            f"{name}{'*' if name in required else ''}: {_type(of, root)}" for name, of in field["properties"].items()
        )
        return "{" + ", ".join(inner) + "}"
    values = field.get("additionalProperties")
    return f"{{NAME: {_type(values, root) if isinstance(values, dict) else 'any value'}, …}}"
