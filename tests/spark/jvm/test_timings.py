from __future__ import annotations

import pytest

from streamling.spark.jvm.timings import Timings, process_age


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_phases_count_from_the_start_of_the_process() -> None:
    clock = Clock()
    timings = Timings(started=99.0, clock=clock)
    with timings.phase("think"):
        clock.now += 0.25
    timings.mark("ready")
    assert [(phase.name, phase.start, phase.end) for phase in timings.phases()] == [
        ("think", 1.0, 1.25),
        ("ready", 1.25, 1.25),
    ]


def test_a_phase_that_fails_is_kept() -> None:
    clock = Clock()
    timings = Timings(started=100.0, clock=clock)

    def fail() -> None:
        with timings.phase("break"):
            clock.now += 2
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert timings.phases()[0].seconds == 2


def test_the_table_is_ordered_by_end_and_shows_no_duration_for_a_moment() -> None:
    clock = Clock()
    timings = Timings(started=100.0, clock=clock)
    with timings.phase("long"):
        clock.now += 0.1
        timings.mark("moment")
        clock.now += 0.4
    assert timings.table().splitlines() == [
        "       at       took  phase",
        "   100 ms             moment",
        "   500 ms     500 ms  long",
    ]


def test_the_age_of_the_process_is_known() -> None:
    age = process_age()
    assert process_age() >= age >= 0
