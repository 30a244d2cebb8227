"""The graph of a pipeline file as far as it can be read: for drawings of pipelines that do not run, whatever the
reason. Nothing is checked, and no variable or secret is resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.document.loader import Document, load_yaml
from streamling.pipeline.graph import resolve
from streamling.pipeline.model import NodeKind


@dataclass(frozen=True)
class SketchedNode:
    """An entry under `sources`, `transforms` or `sinks`."""

    name: str
    kind: NodeKind
    #: as written; empty if it is missing
    type: str
    line: int
    #: its program, or its fields as YAML
    definition: str
    #: nodes of the sketch
    upstreams: tuple[str, ...]
    dead_letters: str | None


def sketch_pipeline(text: str, file: str) -> list[SketchedNode]:
    """Return the nodes of the pipeline in ``text``, in the order of the file; of a text that is not YAML those before
    the error."""
    document = _document(text, file)
    entries = list(_entries(document))
    names = [name for name, _, _ in entries]
    return [_node(document, names, *entry) for entry in entries]


def node_at_line(nodes: Sequence[SketchedNode], line: int) -> str | None:
    """Return the node whose lines contain ``line``."""
    before = [node for node in nodes if node.line <= line]
    return max(before, key=lambda node: node.line).name if before else None


def _document(text: str, file: str) -> Document:
    try:
        return load_yaml(text, file)
    except InvalidPipeline as error:
        before = text.splitlines(keepends=True)[: max(error.problems[0].line - 1, 0)]
    try:
        return load_yaml("".join(before), file)
    except InvalidPipeline:
        return load_yaml("", file)


def _entries(document: Document) -> Iterator[tuple[str, NodeKind, Any]]:
    """Yield name, kind and fields of every entry, each name once."""
    seen: set[str] = set()
    sections = document.data if isinstance(document.data, dict) else {}
    for kind in NodeKind:
        section = sections.get(kind.section)
        for key, fields in section.items() if isinstance(section, dict) else ():
            if (name := str(key)) not in seen:
                seen.add(name)
                yield name, kind, fields


def _node(document: Document, names: Sequence[str], name: str, kind: NodeKind, raw: Any) -> SketchedNode:
    fields = raw if isinstance(raw, dict) else {}
    errors = fields.get("errors")
    upstreams = (resolve(reference, names) for reference in _references(fields))
    return SketchedNode(
        name=name,
        kind=kind,
        type=str(fields.get("type") or ""),
        line=document.entry_location((kind.section, name)).key.line,
        definition=_definition(raw),
        upstreams=tuple(dict.fromkeys(each for each in upstreams if each is not None and each != name)),
        dead_letters=resolve(str(errors["to"]), names) if isinstance(errors, dict) and "to" in errors else None,
    )


def _references(fields: dict[str, Any]) -> list[str]:
    """Return what a node reads: `from`, or the tables of its SQL."""
    if isinstance(named := fields.get("from"), str):
        return [named]
    if not isinstance(sql := fields.get("sql"), str):
        return []
    from streamling.sql.statement import Statement

    try:
        return list(Statement(sql).nodes)
    except StreamlingError:
        return []


def _definition(raw: Any) -> str:
    if isinstance(raw, dict):
        for field in ("sql", "script"):
            if isinstance(text := raw.get(field), str):
                return text
    import yaml

    return yaml.safe_dump(raw, sort_keys=False, allow_unicode=True)
