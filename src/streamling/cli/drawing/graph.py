"""A pipeline as a graph to draw: nodes with labels, and edges along which rows flow. Made from the file alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from streamling.pipeline.config.values import mask_url
from streamling.pipeline.graph import resolve
from streamling.pipeline.model import Node, NodeKind, Pipeline

#: fields that say what a node reads or writes, and how they are shown
_DETAILS = (
    ("topic", "topic {}"),
    ("agg_table", "table {}"),
    ("table", "table {}"),
    ("path", "{}"),
    ("url", "{}"),
    ("backend_entity_name", "table {}"),
    ("table_name", "table {}"),
)


class Shape(StrEnum):
    """What kind of node it is; each kind is drawn with an outline of its own."""

    SOURCE = "source"
    TRANSFORM = "transform"
    TABLE = "table"
    SINK = "sink"


class EdgeKind(StrEnum):
    ROWS = ""
    REJECTED = "rejected rows"
    LOOKUP = "looked up"


@dataclass(frozen=True)
class GraphNode:
    name: str
    shape: Shape
    #: such as ``print sink``
    type: str
    #: what it reads or writes, such as ``topic orders``; empty if the type says it all
    detail: str = ""


@dataclass(frozen=True)
class Edge:
    start: str
    end: str
    kind: EdgeKind = EdgeKind.ROWS


@dataclass(frozen=True)
class Graph:
    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]


def graph_of(pipeline: Pipeline) -> Graph:
    """Return the graph of ``pipeline``, upstream nodes first."""
    return Graph(pipeline.name or pipeline.file, tuple(map(_node, pipeline)), tuple(_edges(pipeline)))


def _node(node: Node) -> GraphNode:
    shape = Shape(node.kind.value) if node.options.emits_rows else Shape.TABLE
    what = node.type if node.kind is NodeKind.TRANSFORM else f"{node.type} {node.kind}"
    return GraphNode(node.name, shape, what.replace("_", " "), _detail(node.options))


def _detail(options: Any) -> str:
    for field, form in _DETAILS:
        value = getattr(options, field, None)
        if isinstance(value, str) and value:
            schema = getattr(options, "schema_", None)
            prefix = f"{schema}." if isinstance(schema, str) and "table" in form else ""
            return form.format(prefix + mask_url(value))
    return ""


def _edges(pipeline: Pipeline) -> Iterator[Edge]:
    names = [node.name for node in pipeline]
    for node in pipeline:
        yield from (Edge(upstream, node.name) for upstream in node.upstreams)
        if node.dead_letters is not None:
            yield Edge(node.name, node.dead_letters, EdgeKind.REJECTED)
        tables = dict.fromkeys(resolve(lookup.table, names) for lookup in node.options.lookups())
        yield from (Edge(table, node.name, EdgeKind.LOOKUP) for table in tables if table is not None)
