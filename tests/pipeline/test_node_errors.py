"""Errors name their node once, on the way up, and point at the option that they are about."""

from __future__ import annotations

import pytest

from streamling.errors import StreamlingError
from streamling.pipeline.document.location import Location
from streamling.pipeline.error_locations import node_error, node_errors, problem_from_error
from streamling.pipeline.model import Node, NodeKind
from streamling.pipeline.options import FreeFormOptions


def _node(name: str, kind: NodeKind = NodeKind.SINK) -> Node:
    options = FreeFormOptions.model_validate({"type": "shop"})
    location = Location("p.yaml", 3, 5)
    return Node(name, kind, options, location=location, value_locations={"query": Location("p.yaml", 4, 12)})


def test_an_error_names_the_node_that_is_closest_to_it():
    with pytest.raises(StreamlingError) as raised, node_errors(_node("above")), node_errors(_node("out")):
        raise StreamlingError("refused")
    assert str(raised.value) == "shop sink 'out': refused"
    assert raised.value.node == _node("out").label


def test_a_name_in_the_text_is_not_the_node():
    error = StreamlingError("cannot follow shop sink 'out'")
    assert str(node_error(error, _node("out"))) == "shop sink 'out': cannot follow shop sink 'out'"


def test_another_exception_becomes_the_cause():
    with pytest.raises(StreamlingError) as raised, node_errors(_node("out"), "closing"):
        raise TimeoutError("late")
    assert str(raised.value) == "shop sink 'out': closing"
    assert raised.value.retriable
    assert list(raised.value.causes()) == ["TimeoutError: late"]


def test_an_error_about_an_option_is_at_its_place_and_needs_no_note_about_it():
    error = StreamlingError("wrong word (line 2)").about("query", line=2, column=3, note=" (line 2)")
    assert str(node_error(error, _node("out"))) == "p.yaml:5:14: shop sink 'out': wrong word"


def test_an_option_of_another_node_is_not_looked_for_here():
    error = StreamlingError("wrong word").about("query").of_node(_node("other").label)
    assert str(node_error(error, _node("out"))) == "shop sink 'other': wrong word"


def test_a_problem_has_the_place_of_its_node_and_names_it():
    problem = problem_from_error(StreamlingError.user("refused", remedy="log in"), _node("out"))
    assert str(problem) == "p.yaml:3:5: shop sink 'out': refused (log in)"
