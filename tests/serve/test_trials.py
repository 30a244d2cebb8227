"""Which pipeline has ended the JVM: examples, and random fleets in which some pipelines always do."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace

import pytest

from streamling.serve.lifecycle import LOADED, Action, Actual, State, Wish, decide, next_on_trial, observe
from streamling.serve.model import PipelineKey
from streamling.serve.runtime import JvmDeath, Phase, Report

SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261117"))
WISH = Wish("running", revision=1)
A, B, C = (PipelineKey("default", name) for name in "abc")


def died(*, evaluating: bool = True, alone: bool = True) -> Report:
    """The report of a pipeline whose JVM has ended."""
    death = JvmDeath(evaluating, alone)
    return Report(Phase.ENDED, error="the JVM ran out of heap", retriable=True, jvm_death=death)


def running(now: float = 0.0) -> Actual:
    _, actual = decide(WISH, Actual(), now)
    return observe(actual, Report(Phase.RUNNING, ready=True), now, 0)


def suspect(now: float = 0.0, ran: float = 0.0) -> Actual:
    return observe(running(now - ran), died(), now, 0)


def on_trial(now: float = 0.0) -> Actual:
    _, actual = decide(WISH, suspect(now), now)
    return observe(actual, Report(Phase.RUNNING), now, 0)


def test_a_pipeline_without_work_restarts_at_once_when_the_jvm_ends():
    actual = observe(running(), died(evaluating=False), 5, 0)
    assert (actual.state, actual.ready, actual.suspicions) == (State.RESTARTING, False, 0)
    action, actual = decide(WISH, actual, 5, may_start=False)
    assert (action, actual.restarts, actual.failures) == (Action.LOAD, 1, 1)


def test_the_pauses_become_longer_if_the_jvm_ends_again_and_again():
    actual, now, pauses = running(), 0.0, []
    for _ in range(4):
        actual = observe(actual, died(evaluating=False), now, 0)
        assert actual.retry_at is not None
        pauses.append(actual.retry_at - now)
        now = actual.retry_at
        _, actual = decide(WISH, actual, now)
        actual = observe(actual, Report(Phase.RUNNING), now, 0)
    assert pauses == [0, 1, 2, 4]
    assert observe(actual, died(evaluating=False), now + 60, 0).retry_at == now + 60


def test_a_pipeline_with_work_is_a_suspect_and_waits_for_its_turn():
    actual = suspect(5)
    action, waiting = decide(WISH, actual, 5, may_start=False)
    assert (action, waiting.state, waiting.ready) == (Action.NOTHING, State.RESTARTING, False)
    assert "one at a time" in waiting.reason
    assert decide(WISH, waiting, 5, may_start=True)[0] is Action.LOAD


def test_the_only_suspect_that_runs_when_the_jvm_ends_again_is_the_culprit():
    actual = observe(on_trial(5), died(), 6, 0)
    assert (actual.state, actual.error) == (
        State.FAILED,
        "its query ended the JVM 2 times: the JVM ran out of heap",
    )
    assert "isolation: process" in actual.remedy
    assert decide(WISH, actual, 10_000)[0] is Action.NOTHING
    assert decide(Wish("running", revision=2), actual, 10_000)[0] is Action.LOAD


@pytest.mark.parametrize(
    ("death", "suspicions"), [(died(evaluating=False, alone=False), 1), (died(evaluating=True, alone=False), 2)]
)
def test_a_suspect_is_not_the_culprit_if_it_may_have_been_another_one(death, suspicions):
    actual = observe(on_trial(5), death, 6, 0)
    assert (actual.state, actual.suspicions) == (State.RESTARTING, suspicions)


def test_a_suspect_is_cleared_when_its_rows_are_stored_or_after_a_minute():
    assert observe(on_trial(5), Report(Phase.RUNNING, proven=True), 6, 0).suspicions == 0
    assert observe(on_trial(5), Report(Phase.RUNNING), 64, 0).suspicions == 1
    assert observe(on_trial(5), Report(Phase.RUNNING), 65, 0).suspicions == 0


def test_a_pipeline_in_a_process_of_its_own_is_no_suspect():
    action, actual = decide(Wish("running", 2, has_own_jvm=True), suspect(5), 5, may_start=False)
    assert (action, actual.suspicions) == (Action.LOAD, 0)


def next_of(now: float, **actuals: Actual) -> PipelineKey | None:
    return next_on_trial({PipelineKey("default", name): (WISH, each) for name, each in actuals.items()}, now)


def test_one_suspect_at_a_time_the_newest_first():
    assert next_of(5, a=suspect(5, ran=50), b=suspect(5, ran=3), c=running()) == B
    assert next_of(5, a=suspect(5, ran=50), b=on_trial(5)) is None
    assert next_of(5, a=replace(suspect(5, ran=50), suspicions=2), b=suspect(5, ran=3)) == A
    assert next_of(5, a=running()) is None


def test_a_trial_begins_when_the_others_have_started_again():
    lost = observe(running(), died(evaluating=False), 5, 0)
    _, starting = decide(WISH, lost, 5)
    assert next_of(5, a=suspect(5), b=lost) is None
    assert next_of(6, a=suspect(5), b=starting) is None
    assert next_of(20, a=suspect(5), b=starting) == A
    assert next_of(6, a=suspect(5), b=running()) == A


def test_a_suspect_that_cannot_start_does_not_hold_up_the_next():
    unreachable = observe(on_trial(5), Report(Phase.ENDED, error="refused", retriable=True), 6, 0)
    assert next_of(6, a=unreachable, b=suspect(5)) == B
    _, hanging = decide(WISH, suspect(5), 5)
    assert next_of(70, a=hanging, b=suspect(5)) == B
    paused = {A: (Wish("paused", 1), suspect(5)), C: (WISH, suspect(5))}
    assert next_on_trial(paused, 6) == C


@dataclass
class _Pipeline:
    """A pipeline in a simulated fleet; a culprit ends the JVM as soon as it evaluates something."""

    is_culprit: bool
    is_busy: bool
    actual: Actual = field(default_factory=Actual)
    phase: Phase | None = None
    has_rows_stored: bool = False
    evaluating: bool = False


class _Fleet:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._now = 0.0
        self.deaths = 0
        number = chance.randrange(2, 12)
        culprits = chance.randrange(1, 3)
        self.pipelines = {
            PipelineKey("default", f"p{index}"): _Pipeline(index < culprits, chance.random() < 0.7)
            for index in range(number)
        }

    def step(self) -> None:
        """One pass of the reconciler, and what happens until the next one."""
        self._now += self._chance.uniform(0.1, 1.0)
        pairs = {key: (WISH, each.actual) for key, each in self.pipelines.items()}
        turn = next_on_trial(pairs, self._now)
        for key, each in self.pipelines.items():
            if each.phase is not None:
                each.actual = observe(each.actual, Report(each.phase, proven=each.has_rows_stored), self._now, 0.5)
            action, each.actual = decide(WISH, each.actual, self._now, key == turn)
            assert action in (Action.NOTHING, Action.LOAD)
            if action is Action.LOAD:
                assert each.phase is None
                each.phase, each.has_rows_stored = Phase.STARTING, False
        self._work()

    def _work(self) -> None:
        for each in self.pipelines.values():
            if each.phase is Phase.STARTING and self._chance.random() < 0.7:
                each.phase = Phase.RUNNING
            works = each.phase is Phase.RUNNING and (each.is_culprit or each.is_busy) and self._chance.random() < 0.7
            each.has_rows_stored |= works and not each.is_culprit
            each.evaluating = each.phase is Phase.STARTING or works
        if any(each.is_culprit and each.evaluating and each.phase is Phase.RUNNING for each in self.pipelines.values()):
            self._die()

    def _die(self) -> None:
        self.deaths += 1
        loaded = [each for each in self.pipelines.values() if each.phase is not None]
        unproven = [each for each in loaded if each.evaluating and not each.has_rows_stored]
        for each in loaded:
            alone = not any(other is not each for other in unproven)
            each.actual = observe(each.actual, died(evaluating=each.evaluating, alone=alone), self._now, 0.5)
            each.phase = None


@pytest.mark.parametrize("number", range(50))
def test_whatever_the_fleet_the_culprits_fail_and_all_others_run(number):
    fleet = _Fleet(random.Random(SEED + number))
    for _ in range(1000):
        fleet.step()
    for each in fleet.pipelines.values():
        assert each.actual.state is (State.FAILED if each.is_culprit else State.RUNNING)
        assert (each.actual.state in LOADED) is (each.phase is not None)
    assert fleet.deaths <= 2 * sum(each.is_culprit for each in fleet.pipelines.values()) + 2
