from __future__ import annotations

from tests.harness.clock import SimulatedClock

from streamling.engine.run.termination import Termination
from streamling.errors import StreamlingError


def _running(budget: float = 30) -> tuple[Termination, SimulatedClock]:
    clock = SimulatedClock()
    termination = Termination(clock, budget)
    termination.watch(["a", "b"])
    return termination, clock


def test_the_run_ends_with_its_last_flow():
    termination, _ = _running()
    finished: list[bool] = []
    termination.on_finish = lambda: finished.append(True)
    termination.flow_ended("a")
    assert not termination.is_due
    assert not finished
    termination.flow_ended("b")
    termination.wait()
    assert termination.is_due
    assert finished == [True]
    assert not termination.stopping.is_set(), "bounded work that has ended is not stopping"


def test_the_first_reason_and_the_first_failure_count():
    termination, _ = _running()
    termination.request_stop("SIGTERM", keep_position=False)
    termination.request_stop("row limit", keep_position=True)
    assert (termination.reason, termination.keeps_position) == ("SIGTERM", True)
    assert termination.stopping.is_set()
    cause, consequence = StreamlingError("cause"), StreamlingError("consequence")
    assert termination.fail(cause)
    assert not termination.fail(consequence)
    assert termination.failure is cause


def test_the_time_for_closing_counts_from_the_request():
    termination, clock = _running(budget=30)
    termination.request_stop("SIGTERM", keep_position=False)
    clock.advance(20)
    remaining = termination.countdown()
    assert remaining() == 8, "2 s are reserved for what is closed after the operators"
    clock.advance(100)
    assert remaining() == 0.1


def test_without_a_request_the_time_for_closing_counts_from_the_end():
    termination, clock = _running(budget=30)
    clock.advance(1000)
    assert termination.countdown()() == 30
