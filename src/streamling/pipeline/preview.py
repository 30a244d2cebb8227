"""Rewrites a pipeline for a preview: nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from streamling.errors import InvalidPipeline
from streamling.pipeline.checks import unread_nodes
from streamling.pipeline.document.loader import Document, load_yaml
from streamling.pipeline.node_types import NodeTypes

_SINKS: Final = "sinks"


def without_sinks(text: str, registry: NodeTypes) -> str:
    """Return the pipeline with every sink replaced by a blackhole that reads the same node. If there are no sinks,
    nodes that nothing reads get one. Lines keep their numbers, so that errors name the right ones. A text that is not a
    pipeline is returned unchanged: the parser reports it."""
    try:
        document = load_yaml(text, "pipeline.yaml")
    except InvalidPipeline:
        return text
    if document.problems or not isinstance(document.data, dict):
        return text
    sinks = document.data.get(_SINKS)
    replaced = _replaced(sinks) if isinstance(sinks, dict) and sinks else _added(document, registry)
    block = yaml.safe_dump({_SINKS: replaced}, default_flow_style=None, width=10_000, allow_unicode=True)
    return _with_section(text, document, block)


def _replaced(sinks: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _blackhole(sink.get("from") if isinstance(sink, dict) else None) for name, sink in sinks.items()}


def _added(document: Document, registry: NodeTypes) -> dict[str, Any]:
    return {f"preview_of_{name}": _blackhole(name) for _, name in unread_nodes(document, registry)}


def _blackhole(upstream: object) -> dict[str, Any]:
    return {"type": "blackhole"} if upstream is None else {"type": "blackhole", "from": upstream}


def _with_section(text: str, document: Document, block: str) -> str:
    """Return ``text`` with ``block`` as its section of sinks."""
    lines = text.splitlines(keepends=True)
    starts = {key: document.entry_location((key,)).key for key in document.data}
    if _SINKS not in starts:
        return text.rstrip("\n") + "\n" + block
    begin = starts[_SINKS]
    following = [place.line for place in starts.values() if place.line > begin.line]
    end = min(following, default=len(lines) + 1)
    if begin.column != 1 or any(place.line == begin.line for key, place in starts.items() if key != _SINKS):
        # sections are not lines of their own, as in `{sources: …, sinks: …}`
        rest = {key: value for key, value in document.data.items() if key != _SINKS}
        return yaml.safe_dump(rest, sort_keys=False, allow_unicode=True, width=10_000) + block
    new = block.splitlines(keepends=True)
    if following and len(new) > end - begin.line:
        new = [_as_one_line(block)]
    padding = ["\n"] * (end - begin.line - len(new)) if following else []
    return "".join([*lines[: begin.line - 1], *new, *padding, *lines[end - 1 :]])


def _as_one_line(block: str) -> str:
    sinks = yaml.safe_load(block)[_SINKS]
    flow = yaml.safe_dump(sinks, default_flow_style=True, width=1_000_000, allow_unicode=True)
    return f"{_SINKS}: {' '.join(flow.split())}\n"
