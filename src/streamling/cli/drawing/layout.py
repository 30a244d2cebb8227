"""Places the nodes of a graph in columns from left to right, so that edges are short and cross rarely.

This is the usual layered drawing in its simplest form: longest path, barycentres, straight rows. Pipelines are small
and nearly trees, for which it is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from streamling.cli.drawing.graph import Edge, Graph

_SWEEPS = 8


@dataclass
class GraphLayout:
    """Columns of names from left to right, each from top to bottom. An edge that passes a column has a waypoint there,
    whose name is not that of a node."""

    columns: list[list[str]]
    #: the way of each edge: its start, waypoints, its end
    ways: dict[Edge, list[str]]
    #: vertical position of each name, in rows
    rows: dict[str, float] = field(default_factory=dict)


def layout_of(graph: Graph) -> GraphLayout:
    """Return the columns and rows of all nodes."""
    column = _columns(graph)
    layout = GraphLayout([[] for _ in range(max(column.values(), default=-1) + 1)], {})
    for node in graph.nodes:
        layout.columns[column[node.name]].append(node.name)
    for number, edge in enumerate(graph.edges):
        between = range(column[edge.start] + 1, column[edge.end])
        waypoints = [f"\0{number}:{place}" for place in between]
        for place, waypoint in zip(between, waypoints, strict=True):
            layout.columns[place].append(waypoint)
        layout.ways[edge] = [edge.start, *waypoints, edge.end]
    neighbours = _neighbours(layout)
    for sweep in range(_SWEEPS):
        _sort(layout, neighbours, forward=sweep % 2 == 0)
    layout.rows = _rows(layout, neighbours)
    return layout


def _columns(graph: Graph) -> dict[str, int]:
    """Return the length of the longest path to each node; sources are one step before their first consumer."""
    above: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        above[edge.end].append(edge.start)
    column: dict[str, int] = {}

    def place(name: str) -> int:
        if name not in column:
            column[name] = max((place(start) + 1 for start in above[name]), default=0)
        return column[name]

    for node in graph.nodes:
        place(node.name)
    for node in graph.nodes:
        if not above[node.name]:
            below = [column[edge.end] for edge in graph.edges if edge.start == node.name]
            column[node.name] = min(below, default=1) - 1
    return column


def _neighbours(layout: GraphLayout) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """Return those in the column before and in the column after, by name."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for way in layout.ways.values():
        for one, other in pairwise(way):
            after.setdefault(one, []).append(other)
            before.setdefault(other, []).append(one)
    return before, after


def _sort(
    layout: GraphLayout, neighbours: tuple[Mapping[str, list[str]], Mapping[str, list[str]]], *, forward: bool
) -> None:
    """Order each column by the average position of the neighbours in the column before it, or after it."""
    columns = layout.columns if forward else layout.columns[::-1]
    near = neighbours[0 if forward else 1]
    for fixed, free in pairwise(columns):
        position = {name: index for index, name in enumerate(fixed)}
        average = {
            name: _mean([position[each] for each in near.get(name, ()) if each in position], index)
            for index, name in enumerate(free)
        }
        free.sort(key=average.__getitem__)


def _rows(layout: GraphLayout, neighbours: tuple[Mapping[str, list[str]], Mapping[str, list[str]]]) -> dict[str, float]:
    """Return the rows at a distance of at least one, each name near the average of its neighbours."""
    rows = {name: float(index) for column in layout.columns for index, name in enumerate(column)}
    for sweep in range(_SWEEPS):
        near = neighbours[sweep % 2]
        for column in layout.columns if sweep % 2 == 0 else layout.columns[::-1]:
            wanted = [_mean([rows[each] for each in near.get(name, ())], rows[name]) for name in column]
            rows |= zip(column, _spread(wanted), strict=True)
    first = min(rows.values(), default=0.0)
    return {name: row - first for name, row in rows.items()}


def _spread(wanted: Sequence[float]) -> Iterator[float]:
    """Return the positions in the same order with a distance of at least one; as a whole not moved up or down."""
    placed: list[float] = []
    for position in wanted:
        placed.append(max(position, placed[-1] + 1) if placed else position)
    shift = sum(placed) / len(placed) - sum(wanted) / len(wanted) if placed else 0.0
    return (position - shift for position in placed)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
