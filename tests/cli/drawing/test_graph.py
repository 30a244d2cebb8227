"""Graphs of pipelines: Mermaid text and SVG images."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from streamling.cli.drawing.graph import graph_of
from streamling.cli.drawing.mermaid import mermaid
from streamling.cli.drawing.svg import layout_of, svg
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry

PIPELINE = """\
name: 'Orders <all> & "more"'
sources:
  web: {type: kafka, topic: web.orders, primary_key: id}
  shop: {type: file, path: data/orders, format: csv, primary_key: id}
transforms:
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: SELECT user FROM web}
  all: {type: sql, primary_key: id, sql: "SELECT id, user FROM web UNION ALL SELECT id, user FROM shop"}
  new: {type: sql, primary_key: id, sql: "SELECT id FROM web WHERE NOT dynamic_table_check('seen', user)"}
  scored:
    type: handler
    from: new
    url: https://user:hunter2@scores.example.com/v1?key=hunter2
    primary_key: id
    errors: {to: bad}
sinks:
  table: {type: postgres, from: scored, schema: shop, table: orders}
  'raw "<1>"': {type: print, from: all}
  bad: {type: postgres, schema: shop, table: bad}
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def graph():
    return graph_of(parse_pipeline(PIPELINE, registry=Registry.builtin()))


def test_mermaid_shows_kinds_by_outline_and_edges_by_line(graph):
    assert mermaid(graph).splitlines() == [
        "flowchart LR",
        '  n1(["web<br>kafka source<br>topic web.orders"])',
        '  n2(["shop<br>file source<br>data/orders"])',
        '  n3[["seen<br>dynamic table<br>table seen"]]',
        '  n4["all<br>sql"]',
        '  n5["new<br>sql"]',
        '  n6["scored<br>handler<br>https://user:**********@scores.example.com/v1?**********"]',
        '  n7[("table<br>postgres sink<br>table shop.orders")]',
        '  n8[("raw #34;#60;1#62;#34;<br>print sink")]',
        '  n9[("bad<br>postgres sink<br>table shop.bad")]',
        "  n1 --> n3",
        "  n1 --> n4",
        "  n2 --> n4",
        "  n1 --> n5",
        "  n3 -.->|looked up| n5",
        "  n5 --> n6",
        "  n6 -.->|rejected rows| n9",
        "  n6 --> n7",
        "  n4 --> n8",
    ]


def test_rows_flow_from_left_to_right_and_nodes_do_not_overlap(graph):
    layout = layout_of(graph)
    column = {name: number for number, names in enumerate(layout.columns) for name in names}
    assert all(column[edge.start] < column[edge.end] for edge in graph.edges)
    assert all(len(way) == column[edge.end] - column[edge.start] + 1 for edge, way in layout.ways.items())
    for names in layout.columns:
        rows = [layout.rows[name] for name in names]
        assert all(later - earlier >= 0.999 for earlier, later in pairwise(rows))
    assert min(layout.rows.values()) == 0


def test_the_image_is_a_complete_document_with_all_nodes_and_edges(graph):
    text = svg(graph)
    root = ET.fromstring(text)
    assert "hunter2" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("https://user", "")
    assert "prefers-color-scheme: dark" in text
    assert root.findtext(f"{SVG}title") == 'Orders <all> & "more"'
    assert {element.text for element in root.iter(f"{SVG}text") if element.get("class") == "name"} == {
        node.name for node in graph.nodes
    }
    edges = [path for path in root.iter(f"{SVG}path") if (path.get("class") or "").startswith("edge")]
    assert (len(edges), sum("aside" in (edge.get("class") or "") for edge in edges)) == (9, 2)
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    for box in root.iter(f"{SVG}rect"):
        if box.get("class") != "paper":
            assert float(box.get("x") or 0) + float(box.get("width") or 0) <= width
            assert float(box.get("y") or 0) + float(box.get("height") or 0) <= height


def test_kinds_have_different_outlines(graph):
    root = ET.fromstring(svg(graph))
    outlines = {}
    for group in root.iter(f"{SVG}g"):
        shapes = [child for child in group if child.tag != f"{SVG}text" and child.tag != f"{SVG}title"]
        kind = (shapes[0].get("class") or "").split()[1]
        outlines.setdefault(kind, set()).add(tuple((shape.tag, shape.get("rx")) for shape in shapes))
    assert {kind: len(found) for kind, found in outlines.items()} == dict.fromkeys(outlines, 1)
    assert len(outlines) == len({frozenset(found) for found in outlines.values()}) == 4
