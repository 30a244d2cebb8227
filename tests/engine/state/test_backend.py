"""The contract of `StateBackend`, for each of its implementations."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.engine.state.conftest import Opener

from streamling.errors import StreamlingError
from streamling.plugins.context import NodeState
from streamling.plugins.state_backend import StalePositionError, StateBackend, checked_identifier


def test_what_is_put_is_got(state: StateBackend) -> None:
    value = {"offset": 2**60, "updated_at": 1764785420620, "nested": [1.5, None, True, "ü\t😀"]}
    state.put("source:topic:0", value)

    assert state.get("source:topic:0") == value


def test_what_was_never_put_is_none(state: StateBackend) -> None:
    assert state.get("nothing") is None


@pytest.mark.parametrize("value", [0, "", [], {}, False, "text", 3.25])
def test_any_json_value_can_be_stored(state: StateBackend, value: Any) -> None:
    state.put("key", value)

    found = state.get("key")
    assert found == value
    assert type(found) is type(value)


def test_put_replaces(state: StateBackend) -> None:
    state.put("key", 1)
    state.put("key", 2)

    assert state.items() == {"key": 2}


def test_put_many_writes_and_removes_at_once(state: StateBackend) -> None:
    state.put_many({"a": 1, "b": 2, "c": 3})
    state.put_many({"a": 10, "b": None, "unheard of": None, "d": 4})

    assert state.items() == {"a": 10, "c": 3, "d": 4}


def test_put_many_of_nothing_is_fine(state: StateBackend) -> None:
    state.put_many({})

    assert state.items() == {}


def test_many_entries_go_in_one_write(state: StateBackend) -> None:
    entries = {f"topic:{partition:04}": {"offset": partition} for partition in range(2000)}
    state.put_many(entries)

    assert state.items() == entries


def test_nothing_is_written_when_one_entry_cannot_be(state: StateBackend) -> None:
    state.put("a", 1)
    with pytest.raises(StreamlingError, match="'b' cannot be written as JSON"):
        state.put_many({"a": 2, "b": object()})
    with pytest.raises(StreamlingError, match="'b' cannot be written as JSON"):
        state.put_many({"a": 2, "b": float("nan")})

    assert state.items() == {"a": 1}


def test_entries_are_found_by_prefix_in_the_order_of_their_keys(state: StateBackend) -> None:
    state.put_many({"b:2": 2, "b:10": 10, "a:1": 1, "b_1": 0, "B:1": 0, "bé:1": 0})

    assert list(state.get_prefix("b:").items()) == [("b:10", 10), ("b:2", 2)]
    assert list(state.items()) == ["B:1", "a:1", "b:10", "b:2", "b_1", "bé:1"]


@pytest.mark.parametrize("prefix", ["%", "_", "*", "?", "[", "\\", "'"])
def test_a_prefix_is_taken_literally(state: StateBackend, prefix: str) -> None:
    state.put_many({f"{prefix}1": 1, "x1": 2})

    assert state.get_prefix(prefix) == {f"{prefix}1": 1}


def test_remove_forgets(state: StateBackend) -> None:
    state.put_many({"a": 1, "b": 2})
    state.remove("a")
    state.remove("never there")

    assert state.items() == {"b": 2}


def test_namespaces_do_not_see_each_other(open_namespace: Opener) -> None:
    mine, other = open_namespace("mine"), open_namespace("other")
    mine.put("key", "mine")
    other.put("key", "other")
    mine.clear()

    assert mine.items() == {}
    assert other.items() == {"key": "other"}


def test_state_outlives_its_backend(open_namespace: Opener) -> None:
    with open_namespace("app") as first:
        first.put("key", [1, 2])

    assert open_namespace("app").get("key") == [1, 2]


def test_what_came_out_can_be_changed_without_changing_the_state(state: StateBackend) -> None:
    state.put("key", value := {"files": ["1.csv"]})
    value["files"].append("2.csv")
    found = state.get("key")
    assert found is not None
    found["files"].append("3.csv")

    assert state.get("key") == {"files": ["1.csv"]}


def test_threads_may_share_it(state: StateBackend) -> None:
    def work(name: int) -> None:
        for round_ in range(20):
            state.put_many({f"{name}": round_, "shared": name})
            assert state.get(f"{name}") == round_

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {key: value for key, value in state.items().items() if key != "shared"} == {
        str(name): 19 for name in range(4)
    }


def test_closing_twice_is_fine(state: StateBackend) -> None:
    state.close()
    state.close()


def test_a_backend_serves_as_the_state_of_a_node(state: StateBackend) -> None:
    node_state: NodeState = state
    node_state.put("node", 1)

    assert node_state.get_prefix("no") == {"node": 1}


@pytest.mark.parametrize("name", ["state", "_s", "State_2"])
def test_plain_names_are_accepted_as_identifiers(name: str) -> None:
    assert checked_identifier(name, "setting") == name


@pytest.mark.parametrize("name", ["", "2state", "a b", 'a"b', "a;drop table x", "stäte", "a\n"])
def test_other_names_are_refused_as_identifiers(name: str) -> None:
    with pytest.raises(StreamlingError, match=r"^setting is ") as raised:
        checked_identifier(name, "setting")

    assert not raised.value.internal


def test_only_what_is_not_there_is_put_as_new(state: StateBackend) -> None:
    state.put("old", 1)
    state.put_if_absent({"old": 2, "new": 3})

    assert state.items() == {"old": 1, "new": 3}


def test_a_claim_gives_the_entries(state: StateBackend) -> None:
    state.put_many({"a": 1, "b": 2})

    assert state.claim(["a", "c"]) == {"a": 1}
    state.put_many({"a": 3, "c": 4})
    assert [state.get(key) for key in "abc"] == [3, 2, 4]


# ── positions ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_offset_never_moves_backwards(state: StateBackend) -> None:
    state.put_positions({"rows:t:0": {"offset": 39, "topic_id": "a"}, "rows:t:1": {"offset": 7}, "file": {"at": 9}})
    older = {"rows:t:0": {"offset": 35, "topic_id": "a"}, "rows:t:1": {"offset": 8}, "file": {"at": 1}}
    with pytest.raises(StalePositionError, match=r"'rows:t:0' \(offset 39\) is ahead of this process \(offset 35\)"):
        state.put_positions(older)
    assert state.get("rows:t:0")["offset"] == 39
    assert state.get("rows:t:1")["offset"] == 7, "all or nothing"

    state.put_positions({"rows:t:0": {"offset": 39, "topic_id": "a"}, "rows:t:1": {"offset": 8}, "file": {"at": 1}})
    assert state.get("file") == {"at": 1}, "only the offsets of topics have an order"


def test_a_topic_that_was_created_again_begins_anew(state: StateBackend) -> None:
    state.put_positions({"rows:t:0": {"offset": 39, "topic_id": "a"}})
    state.put_positions({"rows:t:0": {"offset": 2, "topic_id": "b"}})
    assert state.get("rows:t:0")["offset"] == 2


def test_what_a_person_stores_may_be_older(state: StateBackend) -> None:
    state.put_positions({"rows:t:0": {"offset": 39}})
    state.put_many({"rows:t:0": {"offset": 35}})
    assert state.get("rows:t:0")["offset"] == 35
