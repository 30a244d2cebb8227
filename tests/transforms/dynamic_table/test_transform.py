"""Look-ups of whole columns in a table that is a Python dictionary here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from streamling.transforms.dynamic_table.transform import EARLIER, PendingAppends, check, first_appearances

TABLE = {"old": EARLIER, "third": 3}


def first_rows(values):
    assert len(set(values)) == len(values), "every value is asked once"
    return [TABLE.get(value) for value in values]


def checked(values: pa.Array, rows: list[int]) -> list[bool | None]:
    return check(values, pa.array(rows, pa.int64()), first_rows).to_pylist()


def test_texts_are_found_from_the_row_after_their_first_on():
    values = pa.array(["old", "third", "third", "third", "new", None, "old"])
    assert checked(values, [0, 2, 3, 4, 5, 6, 7]) == [True, False, False, True, False, None, True]


def test_lists_are_found_by_any_element():
    values = pa.array([["third"], ["new", "third"], [], None, [None], ["new", None, "old"]], pa.list_(pa.string()))
    assert checked(values, [3, 4, 5, 6, 7, 8]) == [False, True, False, None, False, True]


def test_a_slice_of_lists_is_read_from_its_own_start():
    values = pa.array([["old"], ["new"], ["old", "x"]], pa.list_(pa.string())).slice(1)
    assert checked(values, [1, 2]) == [False, True]


@pytest.mark.parametrize("type_", [pa.null(), pa.string(), pa.list_(pa.string()), pa.list_(pa.null())])
def test_only_nulls_need_no_look_up(type_):
    values = pa.array([None, None], type_)
    assert check(values, pa.array([0, 1]), lambda _: pytest.fail("asked")).to_pylist() == [None, None]


def test_no_rows():
    assert checked(pa.array([], pa.string()), []) == []
    assert checked(pa.array([], pa.list_(pa.string())), []) == []


def test_first_appearances_are_the_lowest_rows_in_any_order():
    values = pa.array(["a", "b", None, "a", "b"])
    assert first_appearances(values, pa.array([9, 4, 1, 2, 8])) == {"a": 2, "b": 4}
    assert first_appearances(pa.nulls(2), pa.array([0, 1])) == {}


def test_a_batch_in_flight_is_visible_to_its_own_thread_only():
    appends = PendingAppends()
    appends.begin({"a": 3}, after=0)
    assert appends.first_rows(["a", "b"]) == [3, None]
    assert appends.pending(["a"]) == [False]
    with ThreadPoolExecutor(1) as other:
        assert other.submit(appends.first_rows, ["a"]).result() == [None]
    appends.end(complete=True)
    assert appends.first_rows(["a"]) == [None]
    assert appends.pending(["a", "b"]) == [True, False]


def test_a_batch_that_failed_leaves_nothing_behind():
    appends = PendingAppends()
    appends.begin({"a": 3}, after=0)
    appends.end(complete=False)
    assert appends.pending(["a"]) == [False]
    assert appends.of_epoch(1) == []


def test_values_belong_to_the_epoch_after_the_marker_that_came_before_them():
    appends = PendingAppends()
    for value, after in (("a", 0), ("b", 1), ("a", 1), ("c", 2)):
        appends.begin({value: 0}, after)
        appends.end(complete=True)
    assert appends.of_epoch(1) == ["a"]
    assert appends.of_epoch(2) == ["a", "b"]
    appends.remove_stored(["a"])
    assert appends.of_epoch(3) == ["b", "c"]
