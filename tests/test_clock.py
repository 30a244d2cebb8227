from __future__ import annotations

import threading

from streamling.clock import RealClock
from tests.harness.clock import SimulatedClock


def test_the_simulated_clock_stands_still_until_it_is_advanced() -> None:
    clock = SimulatedClock(start=100)

    assert clock.now() == clock.now() == 100
    clock.advance(2.5)
    assert clock.now() == 102.5


def test_a_wait_on_the_simulated_clock_ends_when_its_time_has_come() -> None:
    clock, condition = SimulatedClock(), threading.Condition()
    results: list[bool] = []
    waiting = threading.Event()

    def never() -> bool:
        waiting.set()
        return False

    def wait() -> None:
        with condition:
            results.append(clock.wait_for(condition, never, timeout=10))

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(10)
    clock.advance(9)
    clock.advance(1)
    thread.join(10)

    assert results == [False]


def test_a_wait_ends_when_its_predicate_holds() -> None:
    for clock in (RealClock(), SimulatedClock()):
        condition, done = threading.Condition(), threading.Event()

        def finish(condition: threading.Condition = condition, done: threading.Event = done) -> None:
            with condition:
                done.set()
                condition.notify_all()

        with condition:
            threading.Thread(target=finish).start()
            assert clock.wait_for(condition, done.is_set, timeout=None)


def test_a_wait_without_time_calls_the_predicate_once() -> None:
    condition = threading.Condition()
    with condition:
        assert not RealClock().wait_for(condition, lambda: False, timeout=0)
        assert not SimulatedClock().wait_for(condition, lambda: False, timeout=0)
