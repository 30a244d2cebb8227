"""Adds a new node type to the pages that list all of them. What is already there stays as it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry

_TESTED_MARK = re.compile(r"(<!-- tested on a cluster -->\n).*?(<!-- end -->)", re.DOTALL)
#: fields that choose how a node reads or writes; all values that are tested are listed
_WAYS = ("format", "data_format", "backend_type", "mode")


def with_sections(page: str, registry: Registry) -> str:
    """Return the page on the pipeline file with a section for every node type, new ones at the end of their kind."""
    for kind in NodeKind:
        for id in registry.ids(kind):
            if f"<!-- fields: {kind.value} {id} -->" not in page:
                heading = f"\n## {kind.section.capitalize()}\n"
                before, found, rest = page.partition(heading)
                assert found, f"the page has no heading {heading.strip()}"
                sections, following, others = rest.partition("\n## ")
                section = f"\n### {id}\n<!-- fields: {kind.value} {id} -->\n<!-- end -->\n"
                page = f"{before}{found}{sections}{section}{following}{others}"
    return page


def with_pages(navigation: str, docs: Path) -> str:
    """Return ``mkdocs.yml`` with every page on a node type, new ones below those of their kind."""
    for kind in NodeKind:
        for page in sorted((docs / kind.section).glob("*.md")):
            place = f"{kind.section}/{page.name}"
            if not re.search(rf": {re.escape(place)}$", navigation, re.MULTILINE):
                lines = re.search(rf"(?:^ +- .*: {kind.section}/.*\.md\n)+", navigation, re.MULTILINE)
                assert lines is not None, f"no page of {kind.section} is in the navigation"
                indent = lines[0].partition("-")[0]
                title = page.read_text().partition("\n")[0].removeprefix("# ").removesuffix(f" {kind.value}")
                entry = f"{indent}- {title}: {place}\n"
                navigation = navigation[: lines.end()] + entry + navigation[lines.end() :]
    return navigation


def with_tested_types(page: str, matrix: Path, registry: Registry) -> str:
    """Return ``page`` with the node types of the pipeline ``matrix``, which is tested on a cluster."""
    if not _TESTED_MARK.search(page):
        return page
    pipeline = yaml.safe_load(matrix.read_text())
    rows = [f"| {kind.section} | {', '.join(_types(pipeline[kind.section], kind, registry))} |" for kind in NodeKind]
    table = "\n".join(["| Nodes | Tested |", "|---|---|", *rows, ""])
    return _TESTED_MARK.sub(lambda mark: f"{mark[1]}{table}{mark[2]}", page)


def _types(nodes: Mapping[str, Any], kind: NodeKind, registry: Registry) -> Iterator[str]:
    used = {node["type"] for node in nodes.values()}
    for id in sorted(used.intersection(registry.ids(kind))):
        ways = [_way([node for node in nodes.values() if node["type"] == id], id, kind, registry, way) for way in _WAYS]
        described = "; ".join(filter(None, ways))
        yield f"`{id}` ({described})" if described else f"`{id}`"
    if used - set(registry.ids(kind)):
        yield "plugin"


def _way(nodes: list[Any], id: str, kind: NodeKind, registry: Registry, name: str) -> str:
    """Return the values that ``nodes`` of one type have for the field ``name``; empty if the type has no such field."""
    found = registry.get(kind, id)
    field = found.options.model_fields.get(name) if found is not None else None
    if field is None:
        return ""
    values = [node.get(name, field.default) for node in nodes]
    return ", ".join(dict.fromkeys(str(value["type"] if isinstance(value, dict) else value) for value in values))
