"""The entry of a hybrid source in the state, and what is concluded when it is missing."""

from __future__ import annotations

import json

import pytest

from streamling.connectors.hybrid.phases import Phases, cursor_key, infer_phases, state_key
from streamling.engine.state.store import owner

TOPIC = "orders"


@pytest.mark.parametrize(
    "phases",
    [
        Phases(0, "earliest"),
        Phases(1, "offset_table", {0: 12, 3: 0}),
        Phases(2, "latest", {0: 7}),
        Phases(2, "latest", {0: 7}, is_handed_off=True),
    ],
)
def test_what_is_stored_is_read_again(phases):
    entry = json.loads(json.dumps(phases.entry(TOPIC)))
    assert Phases.parse(entry, TOPIC, count=2) == phases


def test_the_entry_has_the_known_fields():
    assert Phases(1, "offset_table", {10: 5, 2: 7}).entry(TOPIC) == {
        "current_phase": 1,
        "completed_phases": [0],
        "unbounded_offsets": {"2": 7, "10": 5},
        "handoff": {"topic": "orders", "start": "offset_table", "done": False},
    }


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"current_phase": 0, "completed_phases": [], "unbounded_offsets": {}}, Phases(0)),
        ({"current_phase": 1, "completed_phases": [0], "unbounded_offsets": {}}, Phases(1)),
        ({"current_phase": 0, "completed_phases": [0], "unbounded_offsets": {}}, Phases(1)),
        ({"current_phase": 1, "completed_phases": [0, 1], "unbounded_offsets": {}}, Phases(2)),
        (
            {"current_phase": 2, "completed_phases": [0, 1], "unbounded_offsets": {"0": 9}},
            Phases(2, is_handed_off=True),
        ),
        ({"current_phase": "Unbounded", "completed_phases": [0, 1]}, Phases(2, is_handed_off=True)),
    ],
)
def test_entries_of_other_implementations_are_read(entry, expected):
    """Their offsets were looked up at the end and are not used again."""
    assert Phases.parse(entry, TOPIC, count=2) == expected


@pytest.mark.parametrize(
    "entry", [None, 3, "x", {}, {"current_phase": "?"}, {"current_phase": -1}, {"current_phase": True}]
)
def test_an_entry_that_is_not_readable_counts_as_missing(entry):
    assert Phases.parse(entry, TOPIC, count=2) is None


def test_offsets_of_another_topic_are_not_used():
    entry = Phases(1, "offset_table", {0: 12}).entry("old")
    assert Phases.parse(entry, TOPIC, count=2) == Phases(1)
    entry = Phases(2, "offset_table", {0: 12}, is_handed_off=True).entry("old")
    assert Phases.parse(entry, TOPIC, count=2) == Phases(2, is_handed_off=True)


def test_a_phase_that_was_removed_from_the_file_is_not_taken_for_the_switch():
    entry = Phases(1, "offset_table", {0: 12}).entry(TOPIC)
    assert Phases.parse(entry, TOPIC, count=1) == Phases(1, "offset_table", {0: 12})


@pytest.mark.parametrize(
    ("cursors", "stored", "expected", "phases"),
    [
        ([], [0, 1], [0, 1], Phases(3, is_handed_off=True)),
        ([1], [0, 1, 2], [0, 1], Phases(3, is_handed_off=True)),
        ([], [0], [], Phases(3, is_handed_off=True)),
        ([0, 2, 1], [0], [0, 1], Phases(2)),
        ([0], [], [0], Phases(0)),
        ([1], [], [], Phases(1)),
        ([], [0], [0, 1], Phases(0)),
        ([], [], [], Phases(0)),
    ],
)
def test_the_phase_is_concluded_from_the_other_entries(cursors, stored, expected, phases):
    assert infer_phases(3, cursors, stored, expected) == phases


def test_each_phase_has_its_own_key_and_the_first_one_that_of_earlier_versions():
    assert cursor_key("orders", 0) == "clickhouse_source:orders:v1"
    assert cursor_key("orders", 1) == "clickhouse_source:orders:v1:phase_1"


def test_all_keys_belong_to_their_node():
    for name in ("orders", "raw.orders", "orders_v1", "a:b"):
        keys = (state_key(name), *(cursor_key(name, phase) for phase in range(12)))
        assert {owner(key, frozenset({name, "other"})) for key in keys} == {name}
