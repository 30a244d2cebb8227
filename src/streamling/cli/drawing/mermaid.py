"""A graph as Mermaid text, which GitHub, GitLab and many editors draw."""

from __future__ import annotations

from streamling.cli.drawing.graph import EdgeKind, Graph, GraphNode, Shape

#: opening and closing brackets, which select the outline
_BRACKETS = {
    Shape.SOURCE: ("([", "])"),
    Shape.TRANSFORM: ("[", "]"),
    Shape.TABLE: ("[[", "]]"),
    Shape.SINK: ("[(", ")]"),
}


def mermaid(graph: Graph) -> str:
    """Return the text of the diagram, without a fence."""
    ids = {node.name: f"n{number}" for number, node in enumerate(graph.nodes, start=1)}
    lines = ["flowchart LR"]
    lines += [f"  {ids[node.name]}{_outlined(node)}" for node in graph.nodes]
    for edge in graph.edges:
        arrow = "-->" if edge.kind is EdgeKind.ROWS else f"-.->|{edge.kind}|"
        lines.append(f"  {ids[edge.start]} {arrow} {ids[edge.end]}")
    return "\n".join(lines) + "\n"


def _outlined(node: GraphNode) -> str:
    opening, closing = _BRACKETS[node.shape]
    label = "<br>".join(_escaped(part) for part in (node.name, node.type, node.detail) if part)
    return f'{opening}"{label}"{closing}'


def _escaped(text: str) -> str:
    """Return text as entities where Mermaid would read markup; its entities are written with # instead of &."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return "".join(f"#{ord(char)};" if char in '"#<>&`\\;' else char for char in printable)
