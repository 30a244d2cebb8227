"""Drawings of pipelines that do not run."""

from __future__ import annotations

from streamling.observe.rate_history import Counts, RunCounts
from streamling.serve.lifecycle import Actual, PipelineFailure, State
from streamling.serve.model import PipelineKey
from streamling.serve.stored_topology import stored_topology

KEY = PipelineKey("shop", "orders")
DEFINITION = """sources:
  orders: {type: kafka, topic: orders}
transforms:
  rated:
    type: script
    from: orders
    errors: {to: bad}
sinks:
  out: {type: print, from: rated}
  bad: {type: memory}
"""


def statuses(actual: Actual, definition: str = DEFINITION) -> dict[str, str]:
    return {node["name"]: node["status"] for node in stored_topology(KEY, definition, actual, None)["nodes"]}


def test_every_node_has_the_state_of_the_pipeline():
    assert set(statuses(Actual(State.PAUSED)).values()) == {"paused"}
    assert set(statuses(Actual(State.STARTING)).values()) == {"starting"}


def test_the_failed_node_is_marked_and_the_others_have_stopped():
    found = statuses(
        Actual(State.FAILED, error="no such table", last_failure=PipelineFailure("no such table", node="out"))
    )
    assert found == {"orders": "stopped", "rated": "stopped", "out": "failed", "bad": "stopped"}


def test_an_error_with_a_place_belongs_to_the_node_of_that_line():
    actual = Actual(State.FAILED, error="orders.yaml:6:11: rated reads from 'ordrs', and there is no such source")
    assert statuses(actual)["rated"] == "failed"


def test_an_error_in_a_file_that_is_not_yaml_belongs_to_the_node_before_it():
    text = "sources:\n  orders: {type: file}\n  lost: [1, 2\nsinks:\n"
    assert statuses(Actual(State.FAILED, error="Orders.yaml:3:1: a ']' is missing"), text) == {"orders": "failed"}


def test_dead_letters_have_edges_of_their_own():
    edges = stored_topology(KEY, DEFINITION, Actual(State.PAUSED), None)["edges"]
    assert [(edge["from"], edge["to"], edge["kind"]) for edge in edges] == [
        ("orders", "rated", "rows"),
        ("rated", "bad", "rejected"),
        ("rated", "out", "rows"),
    ]


def test_numbers_are_those_of_the_last_run_with_their_time():
    counts = RunCounts(Counts(5, 4), {"orders": Counts(5, 5, 2)})
    topology = stored_topology(KEY, DEFINITION, Actual(State.PAUSED), (1_800_000_000.0, counts))
    orders, rated = topology["nodes"][:2]
    assert topology["measured_at"] == "2027-01-15T08:00:00.000+00:00"
    assert (orders["rows_out"], orders["lag"], orders["rate_out"], rated["rows_out"]) == (5, 2, None, None)
