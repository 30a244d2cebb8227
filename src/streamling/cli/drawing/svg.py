"""A graph as one SVG file without references to others: light or dark as its reader prefers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

from streamling.cli.drawing.graph import Edge, EdgeKind, Graph, GraphNode, Shape

_MARGIN, _COLUMN_GAP, _ROW_HEIGHT, _NODE_HEIGHT = 24, 96, 96, 70
#: height of the curved ends of a sink
_LID = 7
_TITLE_HEIGHT = 34
_MIN_WIDTH, _MAX_CHARACTERS = 130, 34
#: average width of a character in the fonts below, bold and plain
_BOLD, _PLAIN = 8.0, 6.6

#: literal colours, because some viewers do not support variables
_STYLE = """\
.paper { fill: #ffffff; }
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2933; }
.title { font-size: 15px; font-weight: 600; }
.name { font-size: 13.5px; font-weight: 600; }
.type, .detail, .label { font-size: 11.5px; fill: #52606d; }
.label { paint-order: stroke; stroke: #ffffff; stroke-width: 5px; }
.node, .inner, .edge { stroke: #7b8794; stroke-width: 1.5; }
.inner, .edge { fill: none; }
.aside { stroke-dasharray: 5 4; }
.arrow { fill: #7b8794; }
.source { fill: #e3f4e8; }
.transform { fill: #e6effb; }
.table { fill: #fdf3d8; }
.sink { fill: #f6e8f7; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #14191f; }
  text { fill: #f0f4f8; }
  .type, .detail, .label { fill: #b8c4ce; }
  .label { stroke: #14191f; }
  .source { fill: #1c3a29; }
  .transform { fill: #1b2f4b; }
  .table { fill: #41361a; }
  .sink { fill: #3d2340; }
}"""


def svg(graph: Graph) -> str:
    """Return the whole document."""
    drawing = _Drawing(graph, layout_of(graph))
    width, height = drawing.size()
    summary = f"{len(graph.nodes)} nodes: " + ", ".join(f"{node.name} ({node.type})" for node in graph.nodes)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="img" aria-labelledby="title summary">',
            f'<title id="title">{_text(graph.title)}</title>',
            f'<desc id="summary">{_text(summary)}</desc>',
            f"<style>\n{_STYLE}\n</style>",
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="arrow" d="M0 0L10 5L0 10z"/></marker></defs>',
            '<rect class="paper" width="100%" height="100%"/>',
            f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 6}">{_text(graph.title)}</text>',
            *drawing.edges(),
            *drawing.nodes(),
            "</svg>",
            "",
        ]
    )


class _Drawing:
    def __init__(self, graph: Graph, layout: GraphLayout) -> None:
        self._graph = graph
        self._layout = layout
        by_name = {node.name: node for node in graph.nodes}
        self._widths = [
            max([_width(by_name[name]) for name in column if name in by_name], default=_MIN_WIDTH)
            for column in layout.columns
        ]
        self._lefts: dict[str, float] = {}
        self._column_width: dict[str, float] = {}
        left = float(_MARGIN)
        for column, width in zip(layout.columns, self._widths, strict=True):
            self._lefts |= dict.fromkeys(column, left)
            self._column_width |= dict.fromkeys(column, width)
            left += width + _COLUMN_GAP
        self._right = left - _COLUMN_GAP + _MARGIN

    def size(self) -> tuple[float, float]:
        title = 2 * _MARGIN + 8.5 * len(self._graph.title)
        rows = max(self._layout.rows.values(), default=0.0)
        return max(self._right, title), 2 * _MARGIN + _TITLE_HEIGHT + rows * _ROW_HEIGHT + _NODE_HEIGHT

    def _middle(self, name: str) -> float:
        return _MARGIN + _TITLE_HEIGHT + self._layout.rows[name] * _ROW_HEIGHT + _NODE_HEIGHT / 2

    # ── edges ────────────────────────────────────────────────────────────────────────────────────────────────

    def edges(self) -> Iterator[str]:
        for edge, way in self._layout.ways.items():
            aside = "" if edge.kind is EdgeKind.ROWS else " aside"
            yield f'<path class="edge{aside}" d="{self._curve(way)}" marker-end="url(#arrow)"/>'
        # after all edges, which would otherwise cross them
        yield from (self._label(edge, way) for edge, way in self._layout.ways.items() if edge.kind is not EdgeKind.ROWS)

    def _curve(self, way: list[str]) -> str:
        path = [f"M{self._end_of(way[0]):g} {self._middle(way[0]):g}"]
        for one, other in pairwise(way):
            begin, end = self._end_of(one), self._lefts[other]
            half = (begin + end) / 2
            path.append(
                f"C{half:g} {self._middle(one):g} {half:g} {self._middle(other):g} {end:g} {self._middle(other):g}"
            )
            if other != way[-1]:  # straight through the column
                path.append(f"H{self._end_of(other):g}")
        return "".join(path)

    def _end_of(self, name: str) -> float:
        return self._lefts[name] + self._column_width[name]

    def _label(self, edge: Edge, way: list[str]) -> str:
        x = (self._end_of(way[0]) + self._lefts[way[1]]) / 2
        y = (self._middle(way[0]) + self._middle(way[1])) / 2 - 6
        return f'<text class="label" x="{x:g}" y="{y:g}" text-anchor="middle">{_text(edge.kind.value)}</text>'

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────

    def nodes(self) -> Iterator[str]:
        for node in self._graph.nodes:
            x, y = self._lefts[node.name], self._middle(node.name) - _NODE_HEIGHT / 2
            width = self._column_width[node.name]
            yield f"<g><title>{_text(' · '.join(filter(None, (node.name, node.type, node.detail))))}</title>"
            yield from _OUTLINES[node.shape](x, y, width, node.shape)
            lines = [("name", node.name), ("type", node.type), ("detail", node.detail)]
            shown = [(style, text) for style, text in lines if text]
            lid = _LID if node.shape is Shape.SINK else 0
            top = y + (_NODE_HEIGHT + lid) / 2 - 8.5 * (len(shown) - 1) + 4
            for number, (style, text) in enumerate(shown):
                place = f'x="{x + width / 2:g}" y="{top + 17 * number:g}" text-anchor="middle"'
                yield f'<text class="{style}" {place}>{_text(_short(text))}</text>'
            yield "</g>"


def _pill(x: float, y: float, width: float, shape: Shape) -> Iterator[str]:
    yield _rectangle(x, y, width, shape, _NODE_HEIGHT / 2)


def _box(x: float, y: float, width: float, shape: Shape) -> Iterator[str]:
    yield _rectangle(x, y, width, shape, 6)


def _double_box(x: float, y: float, width: float, shape: Shape) -> Iterator[str]:
    yield _rectangle(x, y, width, shape, 0)
    for edge in (x + 7, x + width - 7):
        yield f'<path class="inner" d="M{edge:g} {y:g}v{_NODE_HEIGHT}"/>'


def _cylinder(x: float, y: float, width: float, shape: Shape) -> Iterator[str]:
    start, arc, side = f"M{x:g} {y + _LID:g}", f"a{width / 2:g} {_LID} 0 0", _NODE_HEIGHT - 2 * _LID
    yield f'<path class="node {shape}" d="{start}{arc} 1 {width:g} 0v{side}{arc} 1 {-width:g} 0z"/>'
    yield f'<path class="inner" d="{start}{arc} 0 {width:g} 0"/>'


def _rectangle(x: float, y: float, width: float, shape: Shape, radius: float) -> str:
    size = f'width="{width:g}" height="{_NODE_HEIGHT}"'
    return f'<rect class="node {shape}" x="{x:g}" y="{y:g}" {size} rx="{radius:g}"/>'


_OUTLINES: Mapping[Shape, Callable[[float, float, float, Shape], Iterator[str]]] = {
    Shape.SOURCE: _pill,
    Shape.TRANSFORM: _box,
    Shape.TABLE: _double_box,
    Shape.SINK: _cylinder,
}


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _width(node: GraphNode) -> float:
    longest = max(_BOLD * _cells(_short(node.name)), _PLAIN * _cells(node.type), _PLAIN * _cells(_short(node.detail)))
    return max(_MIN_WIDTH, round(longest + 36))


def _cells(text: str) -> int:
    """Return the number of characters; those of East Asian scripts count twice."""
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _short(text: str) -> str:
    """Shorten ``text`` in the middle: the end of a path or name says more than its beginning."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    half = _MAX_CHARACTERS // 2
    return f"{text[: half - 1]}…{text[-half:]}"


def _text(text: str) -> str:
    return escape("".join(char if char.isprintable() else " " for char in text))


# ── layout ───────────────────────────────────────────────────────────────────────────────────────────────────────
# This is the usual layered drawing in its simplest form: longest path, barycentres, straight rows. Pipelines are small
# and nearly trees, for which it is enough.

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
