"""Checks over a whole pipeline file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamling.errors import Problem, StreamlingError
from streamling.pipeline.document.loader import Document
from streamling.pipeline.document.suggest import listing
from streamling.pipeline.graph import canonical
from streamling.pipeline.labels import reserved_by_type
from streamling.pipeline.model import Node, NodeKind
from streamling.pipeline.node_types import NodeTypes
from streamling.pipeline.options import SourceOptions, SqlOptions
from streamling.pipeline.validation_errors import problem_at

if TYPE_CHECKING:
    from streamling.sql.statement import Statement


def orphan_problems(document: Document, registry: NodeTypes, nodes: Sequence[Node]) -> list[Problem]:
    """Return sources and transforms without a consumer, found in the raw file: it may be written for a preprocessor,
    with types and fields that only the preprocessor knows. ``nodes`` are those of the pipeline, whose SQL is parsed.
    Reports nothing if some SQL cannot be parsed."""
    _, wrapper = _definition(document.data)
    orphans = unread_nodes(document, registry, nodes)
    if not orphans:
        return []
    names = listing(f"{kind} '{name}'" for kind, name in orphans)
    kind, name = orphans[0]
    location = document.entry_location((*wrapper, kind.section, name)).key
    return [problem_at(f"nothing reads from {names}", location, "connect it to a sink, or remove it")]


def unread_nodes(document: Document, registry: NodeTypes, nodes: Sequence[Node] = ()) -> list[tuple[NodeKind, str]]:
    """Return sources and transforms that no other node reads; none if some SQL cannot be parsed."""
    data, _ = _definition(document.data)
    statements = (node.options.statement for node in nodes if isinstance(node.options, SqlOptions))
    parsed = {statement.sql: statement for statement in statements if statement is not None}
    references = list(_references(data, parsed))
    if not all(references):
        return []
    read = {canonical(name) for names in references for name in names}
    return [
        (kind, name)
        for kind in (NodeKind.SOURCE, NodeKind.TRANSFORM)
        for name, raw in _entries(data, kind)
        if canonical(name) not in read and _emits_rows(kind, raw.get("type"), registry)
    ]


def _emits_rows(kind: NodeKind, type_: Any, registry: NodeTypes) -> bool:
    found = registry.get(kind, type_) if isinstance(type_, str) else None
    return found is None or found.options.emits_rows


def _definition(data: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    if not isinstance(data, dict):
        return {}, ()
    inner = data.get("definition")
    return (inner, ("definition",)) if isinstance(inner, dict) else (data, ())


def _entries(data: dict[str, Any], kind: NodeKind) -> Iterator[tuple[str, dict[str, Any]]]:
    section = data.get(kind.section)
    for name, raw in section.items() if isinstance(section, dict) else ():
        if isinstance(raw, dict):
            yield name, raw


def _references(data: dict[str, Any], parsed: Mapping[str, Statement]) -> Iterator[Collection[str]]:
    """Yield the names that each node reads; none for SQL that cannot be parsed."""
    for kind in (NodeKind.TRANSFORM, NodeKind.SINK):
        for _, raw in _entries(data, kind):
            if isinstance(raw.get("from"), str):
                yield (raw["from"],)
            if isinstance(sql := raw.get("sql"), str):
                yield parsed[sql].nodes if sql in parsed else _nodes_in(sql)


def _nodes_in(sql: str) -> Collection[str]:
    from streamling.sql.statement import Statement

    try:
        return Statement(sql).nodes
    except StreamlingError:
        return ()


def label_problems(node: Node) -> list[Problem]:
    """Return labels that the node's type sets itself."""
    return [
        problem_at(
            f"{node}: the label '{key}' is set by every {node.type} {node.kind} itself",
            node.field_location(f"telemetry.labels.{key}"),
            "choose another label name",
        )
        for key in reserved_by_type(node.options.telemetry.labels, node.options.reserved_labels)
    ]


def job_problems(nodes: Sequence[Node], registry: NodeTypes) -> list[Problem]:
    """Return sources that cannot run in job mode. Whether a plugin source ends is known once it has been created."""
    return [
        job_problem(node)
        for node in nodes
        if isinstance(node.options, SourceOptions)
        and not node.options.supports_job_mode
        and not _is_plugin(node, registry)
    ]


def job_problem(node: Node) -> Problem:
    """Return the error that the source ``node`` cannot run in job mode."""
    return problem_at(
        f"{node} cannot run in job mode, which supports hybrid sources, file sources in bounded mode, generate "
        "sources with a count and bounded plugin sources",
        node.location,
        "use one of these, or turn 'job_mode' off",
    )


def _is_plugin(node: Node, registry: NodeTypes) -> bool:
    node_type = registry.get(node.kind, node.type)
    return node_type is not None and node_type.plugin
