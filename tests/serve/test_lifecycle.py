"""The pure functions of the reconciler: examples, and random walks that end where the wish says."""

from __future__ import annotations

import os
import random

import pytest

from streamling.serve.lifecycle import (
    LOADED,
    Action,
    Actual,
    PipelineFailure,
    State,
    Wish,
    decide,
    observe,
    restart_delay,
)
from streamling.serve.runtime import Phase, Report

SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261117"))
RUNNING = Wish("running", revision=1)
ENDED = Report(Phase.ENDED)
FAILED = Report(Phase.ENDED, error="no such table")
UNREACHABLE = Report(Phase.ENDED, error="connection refused", retriable=True)


def started(revision: int = 1) -> Actual:
    _, actual = decide(Wish("running", revision), Actual(), 0)
    return observe(actual, Report(Phase.RUNNING, ready=True), 1, 0)


def test_a_new_pipeline_is_loaded():
    action, actual = decide(RUNNING, Actual(), 5)
    assert (action, actual.state, actual.revision, actual.since) == (Action.LOAD, State.STARTING, 1, 5)


def test_a_pipeline_that_is_loading_is_left_alone():
    _, actual = decide(RUNNING, Actual(), 0)
    assert decide(RUNNING, actual, 1) == (Action.NOTHING, actual)


def test_a_pipeline_is_ready_when_its_runtime_says_so():
    _, actual = decide(RUNNING, Actual(), 0)
    assert not observe(actual, Report(Phase.RUNNING), 1, 0).ready
    assert observe(actual, Report(Phase.RUNNING, ready=True), 1, 0).ready


def test_the_reason_of_a_running_pipeline_is_what_its_nodes_retry():
    actual = observe(started(), Report(Phase.RUNNING, reason="'out' is retrying: timeout"), 2, 0)
    assert (actual.state, actual.ready, actual.reason) == (State.RUNNING, False, "'out' is retrying: timeout")


def test_a_source_that_ends_finishes_the_pipeline_and_it_is_not_started_again():
    actual = observe(started(), ENDED, 9, 0)
    assert actual.state is State.FINISHED
    assert decide(RUNNING, actual, 10)[0] is Action.NOTHING


def test_a_permanent_error_is_kept_until_the_pipeline_changes():
    actual = observe(started(), FAILED, 9, 0)
    assert (actual.state, actual.error) == (State.FAILED, "no such table")
    assert decide(RUNNING, actual, 10_000)[0] is Action.NOTHING
    action, again = decide(Wish("running", revision=2), actual, 10_000)
    assert (action, again.error) == (Action.LOAD, "")


def test_a_retriable_error_restarts_the_pipeline_after_a_pause_that_doubles():
    actual, now, pauses = started(), 1.0, []
    for _ in range(4):
        actual = observe(actual, UNREACHABLE, now, 0)
        assert (actual.state, actual.error) == (State.RESTARTING, "connection refused")
        assert actual.retry_at is not None
        pauses.append(actual.retry_at - now)
        assert decide(RUNNING, actual, actual.retry_at - 0.01)[0] is Action.NOTHING
        now = actual.retry_at
        action, actual = decide(RUNNING, actual, now)
        assert action is Action.LOAD
    assert pauses == [1, 2, 4, 8]
    assert actual.restarts == 4


def test_after_a_stable_run_the_next_failure_counts_as_the_first():
    actual = observe(started(), UNREACHABLE, 2, 0)
    _, actual = decide(RUNNING, actual, 10)
    actual = observe(actual, Report(Phase.RUNNING), 11, 0)
    assert observe(actual, UNREACHABLE, 12, 0).failures == 2
    assert observe(actual, UNREACHABLE, 11 + 60, 0).failures == 1


def test_the_last_failure_is_kept_while_the_pipeline_runs_again():
    actual = observe(started(), Report(Phase.ENDED, error="refused", remedy="wait", node="out", retriable=True), 5, 0)
    failure = PipelineFailure("refused", "wait", "out", at=5)
    assert (actual.error, actual.last_failure) == ("refused", failure)
    _, actual = decide(RUNNING, actual, 10)
    assert (actual.state, actual.last_failure) == (State.STARTING, failure)
    actual = observe(actual, Report(Phase.RUNNING, ready=True), 11, 0)
    assert (actual.state, actual.error, actual.last_failure) == (State.RUNNING, "", failure)


def test_the_last_failure_is_forgotten_after_ten_minutes_and_a_checkpoint():
    _, actual = decide(RUNNING, observe(started(), UNREACHABLE, 5, 0), 10)
    actual = observe(actual, Report(Phase.RUNNING, ready=True), 11, 0)
    assert observe(actual, Report(Phase.RUNNING, ready=True), 11 + 599, 0).last_failure is not None
    assert observe(actual, Report(Phase.RUNNING), 11 + 600, 0).last_failure is not None
    healthy = observe(actual, Report(Phase.RUNNING, ready=True), 11 + 600, 0)
    assert (healthy.last_failure, healthy.restarts) == (None, 1)


@pytest.mark.parametrize("wish", [Wish("running", 2), Wish("running", 1)], ids=["changed", "resumed"])
def test_what_the_user_starts_has_neither_failures_nor_restarts(wish):
    actual = observe(started(), UNREACHABLE, 5, 0)
    _, actual = decide(RUNNING, actual, 10)
    actual = observe(actual, UNREACHABLE, 12, 0)
    assert (actual.restarts, actual.restarts_since) == (1, 0)
    if wish.revision == 1:
        _, actual = decide(Wish("paused", 1), actual, 20)
    action, actual = decide(wish, actual, 30)
    assert (action, actual.restarts, actual.restarts_since, actual.last_failure) == (Action.LOAD, 0, 30, None)


def test_a_bad_file_is_a_failure():
    _, actual = decide(Wish("running", 1, "orders.yaml:3: unexpected end"), Actual(), 5)
    assert actual.last_failure == PipelineFailure("orders.yaml:3: unexpected end", at=5)


def test_pauses_have_a_limit_and_are_spread():
    assert restart_delay(1000, 0) == 300
    assert restart_delay(1, 1) == 1.5


def test_a_pause_drains_first_and_an_error_of_the_drain_is_kept():
    action, actual = decide(Wish("paused", 1), started(), 5)
    assert (action, actual.state) == (Action.UNLOAD, State.PAUSING)
    assert decide(RUNNING, actual, 6)[0] is Action.NOTHING  # a resume waits for the drain
    actual = observe(actual, FAILED, 7, 0)
    assert (actual.state, actual.error) == (State.PAUSED, "no such table")
    assert decide(RUNNING, actual, 8)[0] is Action.LOAD


def test_a_change_drains_the_old_version_before_the_new_one_is_loaded():
    action, actual = decide(Wish("running", revision=2), started(), 5)
    assert (action, actual.state) == (Action.UNLOAD, State.DRAINING)
    actual = observe(actual, Report(Phase.STOPPING, reason="waiting for out"), 6, 0)
    assert (actual.state, actual.reason) == (State.DRAINING, "waiting for out")
    actual = observe(actual, ENDED, 7, 0)
    action, actual = decide(Wish("running", revision=2), actual, 7)
    assert (action, actual.revision) == (Action.LOAD, 2)


def test_a_deleted_pipeline_is_drained_and_then_removed():
    action, actual = decide(Wish("absent"), started(), 5)
    assert (action, actual.state) == (Action.UNLOAD, State.DRAINING)
    assert decide(Wish("absent"), observe(actual, ENDED, 6, 0), 6)[0] is Action.REMOVE


def test_a_bad_file_fails_without_being_loaded():
    action, actual = decide(Wish("running", 1, "orders.yaml:3: unexpected end"), Actual(), 5)
    assert (action, actual.state, actual.error) == (Action.NOTHING, State.FAILED, "orders.yaml:3: unexpected end")
    assert decide(Wish("running", 2), actual, 6)[0] is Action.LOAD


class Model:
    """A runtime that loads at most one pipeline and reports whatever may happen."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.phase: Phase | None = None
        self.is_unloading = False
        self.is_calm = False

    def act(self, action: Action) -> None:
        if action is Action.LOAD:
            assert self.phase is None, "loaded twice"
            self.phase = Phase.STARTING
        elif action is Action.UNLOAD:
            assert self.phase is not None
            assert not self.is_unloading, "unloaded twice"
            self.is_unloading = True
        elif action is Action.REMOVE:
            assert self.phase is None, "removed while it runs"

    def report(self) -> Report | None:
        if self.phase is None:
            return None
        if self.is_unloading:
            self.phase = self._chance.choice([Phase.STOPPING, Phase.ENDED])
        elif self.phase is Phase.STARTING:
            self.phase = Phase.RUNNING if self.is_calm else self._chance.choice(list(Phase)[:2])
        if not self.is_calm and self._chance.random() < 0.2:
            self.phase = Phase.ENDED
        if self.phase is not Phase.ENDED:
            return Report(self.phase, ready=self.phase is Phase.RUNNING)
        self.phase, self.is_unloading = None, False
        return ENDED if self.is_calm else self._chance.choice([ENDED, FAILED, UNREACHABLE])


@pytest.mark.parametrize("number", range(50))
def test_whatever_happens_the_pipeline_ends_where_the_wish_says(number):
    chance = random.Random(SEED + number)
    model, actual, now, revision = Model(chance), Actual(), 0.0, 1
    wish = RUNNING

    def step() -> Action:
        nonlocal actual
        if (report := model.report()) is not None:
            actual = observe(actual, report, now, chance.random())
        assert (actual.state in LOADED) == (model.phase is not None)
        action, actual = decide(wish, actual, now)
        model.act(action)
        return action

    for _ in range(200):
        now += chance.expovariate(1)
        if chance.random() < 0.2:
            revision += chance.random() < 0.5
            wish = Wish(chance.choice(["running", "paused"]), revision)
        step()
    model.is_calm = True
    revision += 1
    wish = Wish(chance.choice(["running", "paused", "absent"]), revision)
    actions = []
    for _ in range(100):
        now += 1
        actions.append(step())
        if actions[-1] is Action.REMOVE:
            break
    expected = {"running": State.RUNNING, "paused": State.PAUSED, "absent": State.DRAINING}[wish.wanted]
    assert actual.state is expected
    assert (actions[-1] is Action.REMOVE) == (wish.wanted == "absent")
    assert wish.wanted != "running" or (actual.revision == revision and actual.ready)
