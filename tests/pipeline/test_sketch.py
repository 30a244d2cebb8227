"""Drawings of pipeline files that are not checked."""

from __future__ import annotations

from streamling.pipeline.sketch import SketchedNode, node_at_line, sketch_pipeline

ORDERS = """
sources:
  raw.orders: {type: kafka, topic: orders, password: "${secret:KAFKA}", port: "${PORT}"}
transforms:
  large:
    type: sql
    sql: SELECT o.id FROM Raw.Orders AS o WHERE total > 10
  rated:
    type: script
    from: large
    script: "function process(row) { return row }"
    errors: {to: bad}
sinks:
  out: {type: print, from: rated}
  bad: {type: memory}
"""


def named(text: str) -> dict[str, SketchedNode]:
    return {node.name: node for node in sketch_pipeline(text, "orders.yaml")}


def test_nodes_are_connected_by_from_by_sql_and_by_dead_letters():
    nodes = named(ORDERS)
    assert list(nodes) == ["raw.orders", "large", "rated", "out", "bad"]
    assert [nodes[name].upstreams for name in ("large", "rated", "out")] == [("raw.orders",), ("large",), ("rated",)]
    assert nodes["rated"].dead_letters == "bad"
    assert (nodes["rated"].type, nodes["rated"].kind, nodes["rated"].line) == ("script", "transform", 8)


def test_variables_are_not_resolved():
    assert "${secret:KAFKA}" in named(ORDERS)["raw.orders"].definition


def test_programs_are_shown_as_they_are_and_other_nodes_as_yaml():
    nodes = named(ORDERS)
    assert nodes["large"].definition.startswith("SELECT o.id")
    assert "type: print" in nodes["out"].definition


def test_what_is_invalid_is_left_out_and_the_rest_is_drawn():
    text = """
sources: {orders: {type: fil}, 7: just text}
transforms:
  broken: {type: sql, sql: "SELECT ( FROM orders"}
  self: {type: sql, sql: SELECT * FROM self}
sinks:
  out: {type: print, from: nothing}
  orders: {type: print, from: [orders]}
  lost: {from: broken, errors: nowhere}
"""
    nodes = named(text)
    assert list(nodes) == ["orders", "7", "broken", "self", "out", "lost"]
    assert [node.upstreams for node in nodes.values()] == [(), (), (), (), (), ("broken",)]
    assert (nodes["lost"].type, nodes["lost"].dead_letters) == ("", None)


def test_of_a_text_that_is_not_yaml_the_part_before_the_error_is_drawn():
    text = "sources:\n  orders: {type: file}\nsinks:\n  out: {type: print, from: orders}\n  bad: [1, 2\n: x"
    assert list(named(text))[:1] == ["orders"]


def test_a_text_without_sections_has_no_nodes():
    assert [named(text) for text in ("", "a: [", "- 1", "sources: 7", "[")] == [{}] * 5


def test_a_line_belongs_to_the_node_that_begins_before_it():
    nodes = sketch_pipeline(ORDERS, "orders.yaml")
    assert [node_at_line(nodes, line) for line in (1, 3, 7, 10, 99)] == [None, "raw.orders", "large", "rated", "bad"]
