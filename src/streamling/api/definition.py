"""What a program passes as a pipeline: a file, text or a mapping, with some of its nodes replaced by memory."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import uuid4

from streamling.connectors.memory import MemorySinkOptions, MemorySourceOptions
from streamling.engine.launch.launcher import Launcher
from streamling.errors import StreamlingError
from streamling.pipeline.document.suggest import did_you_mean, listing
from streamling.pipeline.model import Node, NodeKind, Pipeline

#: a path, YAML text (recognised by its line breaks), or a mapping with the structure of a pipeline file
Definition: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]

#: what errors call a definition that is not in a file
_TEXT = "definition"


@dataclass(frozen=True)
class NamedPipeline:
    """A pipeline, and the configuration with its application id."""

    pipeline: Pipeline
    launcher: Launcher
    #: False: nothing says which earlier run it continues
    has_identity: bool = True


def read_definition(launcher: Launcher, definition: Definition) -> NamedPipeline:
    """Parse and check ``definition``."""
    if isinstance(definition, Mapping):
        pipeline = launcher.parse(_as_yaml(definition), _TEXT)
    elif isinstance(definition, str) and "\n" in definition:
        pipeline = launcher.parse(definition, _TEXT)
    else:
        pipeline = launcher.pipeline(os.fspath(definition))
        return NamedPipeline(pipeline, launcher.named_after(pipeline))
    if pipeline.name or "application_id" in launcher.config.model_fields_set:
        return NamedPipeline(pipeline, launcher.named_after(pipeline))
    unique = launcher.config.model_copy(update={"application_id": f"python.{uuid4().hex[:12]}"})
    return NamedPipeline(pipeline, replace(launcher, config=unique), has_identity=False)


def with_memory_nodes(pipeline: Pipeline, sources: Collection[str], sinks: Collection[str]) -> Pipeline:
    """Return ``pipeline`` with these sources and sinks replaced by memory sources and sinks."""
    _check_names(sources, pipeline.sources, NodeKind.SOURCE)
    _check_names(sinks, pipeline.sinks, NodeKind.SINK)
    nodes = (
        _memory_source(node) if node.name in sources else _memory_sink(node) if node.name in sinks else node
        for node in pipeline
    )
    return replace(pipeline, nodes=tuple(nodes))


def _as_yaml(definition: Mapping[str, Any]) -> str:
    """Return JSON, which is YAML: all text is quoted, so nothing changes its type."""
    try:
        return json.dumps(definition, indent=2, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise StreamlingError.user(
            f"the definition is not plain data: {error}", remedy="use dicts, lists, text, numbers, booleans and None"
        ) from None


def _check_names(names: Iterable[str], nodes: Iterable[Node], kind: NodeKind) -> None:
    known = [node.name for node in nodes]
    for name in names:
        if name not in known:
            raise StreamlingError.user(
                f"the pipeline has no {kind} '{name}'; its {kind.section}: {listing(known)}",
                remedy=did_you_mean(name, known),
            )


def _memory_source(node: Node) -> Node:
    return replace(node, options=MemorySourceOptions(type="memory", primary_key=node.options.primary_key))


def _memory_sink(node: Node) -> Node:
    if isinstance(node.options, MemorySinkOptions):
        return node
    upstream = node.upstreams[0] if node.upstreams else None
    return replace(node, options=MemorySinkOptions(type="memory", from_=upstream, primary_key=node.options.primary_key))
