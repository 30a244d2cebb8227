"""Problems of a definition as clients see them: with the node, without secrets."""

from __future__ import annotations

from collections.abc import Iterator

from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.document.loader import load_yaml
from streamling.pipeline.model import NodeKind
from streamling.redaction import redact
from streamling.serve.schemas import ProblemObject


def problem_objects(problems: list[Problem], definition: str) -> list[ProblemObject]:
    """Return ``problems`` of ``definition``."""
    nodes = sorted(_node_lines(definition), key=lambda each: each[0])
    return [
        ProblemObject(
            message=redact(problem.message),
            line=problem.line,
            column=problem.column,
            node=_node_at(problem.line, nodes),
            remedy=redact(problem.remedy) if problem.remedy else None,
        )
        for problem in problems
    ]


def _node_lines(definition: str) -> Iterator[tuple[int, str | None]]:
    """Yield the line where each section and each node begins; a section has no name."""
    try:
        document = load_yaml(definition, "")
    except InvalidPipeline:
        return
    if not isinstance(document.data, dict):
        return
    for section, nodes in document.data.items():
        yield document.entry_location((section,)).key.line, None
        if section in {kind.section for kind in NodeKind} and isinstance(nodes, dict):
            for name in nodes:
                yield document.entry_location((section, name)).key.line, str(name)


def _node_at(line: int, nodes: list[tuple[int, str | None]]) -> str | None:
    before = [name for start, name in nodes if start <= line]
    return before[-1] if before else None
