"""JSON Schema of the pipeline file, for completion and checks in editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from streamling.pipeline.model import NodeKind
from streamling.pipeline.node_types import NodeType, NodeTypes
from streamling.pipeline.plugin_fields import typed_fields

_SECTIONS: Mapping[NodeKind, str] = {
    NodeKind.SOURCE: "Where rows come from, by name.",
    NodeKind.TRANSFORM: "What happens to rows, by name; may be left out.",
    NodeKind.SINK: "Where rows go, by name.",
}
#: text that contains a variable
_VARIABLE = {"type": "string", "pattern": r"\$\{.*\}"}
#: keywords that restrict the text of a field, or allow other types
_CHOOSY = frozenset({"enum", "const", "pattern", "anyOf"})


def pipeline_schema(registry: NodeTypes) -> dict[str, Any]:
    """Draft 2020-12; the fields of a node depend on its `type`. Types that the registry does not know are allowed with
    any field: they may be plugins that are not installed where the file is edited."""
    types = {kind: _types(registry, kind) for kind in NodeKind}
    everything = [node_type for of_kind in types.values() for node_type in of_kind]
    refs, definitions = models_json_schema(
        [(node_type.options, "validation") for node_type in everything], by_alias=True
    )
    defs: dict[str, Any] = {
        name: _with_variables(model) if "properties" in model else model
        for name, model in definitions.get("$defs", {}).items()
    }
    for kind, of_kind in types.items():
        defs[kind.value] = _node(kind, of_kind, {t.id: refs[t.options, "validation"] for t in of_kind}, defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Streamling pipeline",
        "type": "object",
        "required": [kind.section for kind in NodeKind if not kind.optional],
        "properties": {kind.section: _section(kind) for kind in NodeKind},
        "$defs": defs,
    }


def _types(registry: NodeTypes, kind: NodeKind) -> list[NodeType]:
    found = (registry.get(kind, id) for id in registry.ids(kind))
    return [node_type for node_type in found if node_type is not None]


def _section(kind: NodeKind) -> dict[str, Any]:
    section = {
        "description": _SECTIONS[kind],
        "type": ["object", "null"] if kind.optional else "object",
        "additionalProperties": {"$ref": f"#/$defs/{kind}"},
    }
    return section if kind.optional else {**section, "minProperties": 1}


def _node(kind: NodeKind, types: list[NodeType], refs: Mapping[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """Return one branch per type; with if/then, editors report only problems with the fields of the chosen type."""
    branches = []
    for node_type in types:
        fields = refs[node_type.id]
        if node_type.plugin:
            fields = _plugin_fields(kind, node_type, defs[fields["$ref"].rsplit("/", 1)[-1]])
        branches.append({"if": _has_type(node_type.id), "then": fields})
    return {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {
                "description": f"Which {kind} this is: a built-in or the id of a plugin.",
                "anyOf": [{"enum": [node_type.id for node_type in types]}, {"type": "string"}],
            }
        },
        "allOf": branches,
    }


def _has_type(id: str) -> dict[str, Any]:
    return {"properties": {"type": {"const": id}}, "required": ["type"]}


def _plugin_fields(kind: NodeKind, node_type: NodeType, model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plugin. They may be on the node or below `options`, so none can be required here; all of
    them may be written as text."""
    typed = typed_fields(kind)
    properties = model.get("properties", {})
    own = {name: _or_text(field) for name, field in properties.items() if name not in typed}
    options = {
        "type": "object",
        "description": "Options of the plugin; they may also be on the node itself.",
        "properties": own,
        "additionalProperties": node_type.has_free_fields,
    }
    return {
        "description": model.get("description", ""),
        "type": "object",
        "required": [name for name in model.get("required", []) if name in typed],
        "properties": {**properties, **own, "options": options},
        "additionalProperties": node_type.has_free_fields,
    }


def _with_variables(model: Mapping[str, Any]) -> dict[str, Any]:
    """Let the fields of ``model`` contain a variable such as ``${SIZE}`` instead of a number or an allowed value."""
    fields = {
        name: field if name == "type" or "const" in field else _or_variable(field)
        for name, field in model["properties"].items()
    }
    return {**model, "properties": fields}


def _or_variable(field: Mapping[str, Any]) -> dict[str, Any]:
    if field.get("type") in ("integer", "number", "boolean") or not field.keys().isdisjoint(_CHOOSY):
        about = {key: value for key, value in field.items() if key in ("title", "description", "default")}
        return {**about, "anyOf": [{k: v for k, v in field.items() if k not in about}, _VARIABLE]}
    return dict(field)


def _or_text(field: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": field.get("description", ""), "anyOf": [field, {"type": "string"}]}
