"""Alternating runs, and folders for processes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.services import Services
from benchmarks.sizes import QUICK
from benchmarks.workbench import Workbench


@pytest.fixture
def bench(tmp_path):
    sizes = replace(QUICK, repetitions=2, warm_ups=1)
    return Workbench(tmp_path, tmp_path, {}, sizes, lambda doing, done: None, Services(tmp_path), total=4)


def test_measurements_alternate_and_every_second_round_is_reversed(bench):
    order = []
    bench.alternate(a=lambda: order.append("a"), b=lambda: order.append("b"))
    assert "".join(order) == "abbaab"


def test_warm_up_rounds_do_not_count(bench):
    numbers = iter(range(10))
    assert bench.alternate(only=lambda: next(numbers)) == {"only": [1, 2]}


def test_short_measurements_can_be_repeated_more_often(bench):
    numbers = iter(range(10))
    assert bench.alternate(2, only=lambda: next(numbers)) == {"only": [1, 2, 3, 4]}


def test_progress_grows_with_every_step(bench):
    reported = []
    bench.report_step = lambda doing, done: reported.append((doing, done))
    bench.step("one")
    bench.step("two")
    assert reported == [("one", 0.0), ("two", 0.25)]


def test_the_quickstart_is_copied_to_where_its_paths_point(bench):
    place = bench.place("here")
    file = bench.quickstart(place, ("type: bounded", "type: continuous"))
    assert "type: continuous" in (place / file).read_text()
    assert list((place / "examples/quickstart/orders").glob("*.csv"))


def test_a_word_to_replace_must_exist(bench):
    with pytest.raises(AssertionError, match="no longer contains 'nonsense'"):
        bench.quickstart(bench.place("here"), ("nonsense", ""))


def test_a_topic_is_filled_once(bench):
    filled = []
    for _ in range(2):
        assert bench.services.topic("changes", lambda: filled.append("changes")) == "changes"
    assert filled == ["changes"]


def test_unused_services_are_not_started(bench):
    bench.services.close()
    assert not list(bench.folder.iterdir())
