"""Side outputs that the configuration attaches to every source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from streamling.errors import StreamlingError
from streamling.pipeline.document.suggest import did_you_mean
from streamling.pipeline.keyed_options import options_for
from streamling.pipeline.model import Node, NodeKind, Pipeline
from streamling.pipeline.node_types import NodeType, NodeTypes
from streamling.pipeline.options import NodeOptions


def with_side_outputs(
    pipeline: Pipeline, ids: Sequence[str], options: Mapping[str, Any], registry: NodeTypes
) -> Pipeline:
    """Return ``pipeline`` with one node for each source and each of ``ids``, which receives the rows of that source."""
    kinds = {id: _options_class(id, registry) for id in ids}
    known = _side_outputs(registry) if ids else []  # imports all types of transforms
    attached = [
        Node(
            f"{source.name}.{id}",
            NodeKind.TRANSFORM,
            _options(kind, id, source.name, options_for(id, options, known)),
            upstreams=(source.name,),
            primary_key=source.primary_key,
            location=source.location,
        )
        for source in pipeline.sources
        for id, kind in kinds.items()
    ]
    return replace(pipeline, nodes=(*pipeline.sources, *attached, *pipeline.transforms, *pipeline.sinks))


def _options_class(id: str, registry: NodeTypes) -> type[NodeOptions]:
    found = _side_output(id, registry)
    if found is None:
        known = _side_outputs(registry)
        raise StreamlingError.user(
            f"plugin.side_output_ids: there is no side output '{id}'",
            remedy=did_you_mean(id, [*known, *registry.declared])
            or (f"use one of: {', '.join(known)}" if known else "put its file on plugin.path, or install its package"),
        )
    return found.options


def _side_outputs(registry: NodeTypes) -> list[str]:
    return [each for each in registry.ids(NodeKind.TRANSFORM) if _side_output(each, registry)]


def _side_output(id: str, registry: NodeTypes) -> NodeType | None:
    found = registry.get(NodeKind.TRANSFORM, id)
    return found if found is not None and found.plugin and not found.options.emits_rows else None


def _options(kind: type[NodeOptions], id: str, source: str, options: Mapping[str, Any]) -> NodeOptions:
    try:
        return kind.model_validate({"type": id, "from": source, **options}, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise StreamlingError.user(
            f"plugin.side_output_options: {field} of '{id}': {first['msg']}", remedy="correct it in the configuration"
        ) from None
