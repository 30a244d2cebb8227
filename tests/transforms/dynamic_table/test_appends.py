"""Pending values of a table: which rows see them when, and which epoch they belong to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from streamling.transforms.dynamic_table.appends import PendingAppends


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
