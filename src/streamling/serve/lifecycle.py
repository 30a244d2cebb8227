"""The life of a pipeline as pure functions: reports of its runtime become a state, state and wish become an action.

Nothing here has threads, clocks or I/O; `reconciler.py` calls it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from streamling.serve.runtime import Phase, Report

#: Pauses between restarts double from the first to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
#: After running for this long, the next failure counts as the first one.
_STABLE_SECONDS = 60.0


class State(StrEnum):
    """The actual state of a pipeline, as the API shows it."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    RESTARTING = "restarting"
    DRAINING = "draining"
    FINISHED = "finished"
    FAILED = "failed"


class Action(StrEnum):
    """What the reconciler has to do."""

    NOTHING = "nothing"
    LOAD = "load"
    UNLOAD = "unload"
    REMOVE = "remove"


#: states in which the runtime holds the pipeline
LOADED = frozenset({State.STARTING, State.RUNNING, State.PAUSING, State.DRAINING})


@dataclass(frozen=True)
class Wish:
    """What the catalogue says about a pipeline."""

    wanted: Literal["running", "paused", "absent"]
    revision: int = 0
    #: why it cannot be started at all
    problem: str = ""


@dataclass(frozen=True)
class Actual:
    """What is known about a pipeline."""

    state: State = State.PENDING
    since: float = 0.0
    #: the revision that was loaded last
    revision: int | None = None
    ready: bool = False
    reason: str = ""
    error: str = ""
    remedy: str = ""
    #: restarts after failures since the server started
    restarts: int = 0
    #: failures in a row
    failures: int = 0
    #: when a failed pipeline is started again
    retry_at: float | None = None

    def moved(self, state: State, now: float, reason: str = "") -> Actual:
        """The same in another state."""
        since = self.since if state is self.state else now
        return replace(self, state=state, since=since, reason=reason, ready=False, retry_at=None)


def observe(actual: Actual, report: Report, now: float, chance: float) -> Actual:
    """``actual`` after the runtime has reported; ``chance`` between 0 and 1 spreads restarts."""
    if report.phase is Phase.STARTING:
        return actual
    if report.phase is Phase.RUNNING:
        if actual.state is State.STARTING:
            actual = replace(actual.moved(State.RUNNING, now), error="", remedy="")
        return replace(actual, ready=report.ready and actual.state is State.RUNNING, reason=report.reason)
    if report.phase is Phase.STOPPING:
        return replace(actual, ready=False, reason=report.reason)
    return _ended(actual, report, now, chance)


def _ended(actual: Actual, report: Report, now: float, chance: float) -> Actual:
    failure = replace(actual, error=report.error, remedy=report.remedy)
    if actual.state is State.PAUSING:
        return failure.moved(State.PAUSED, now)
    if actual.state is State.DRAINING:
        return replace(failure.moved(State.PENDING, now), revision=None)
    if not report.error:
        return failure.moved(State.FINISHED, now, "all sources have ended")
    if not report.retriable:
        return failure.moved(State.FAILED, now, "the error does not go away by itself")
    was_stable = actual.state is State.RUNNING and now - actual.since >= _STABLE_SECONDS
    failures = 1 if was_stable else actual.failures + 1
    pause = restart_pause(failures, chance)
    waiting = failure.moved(State.RESTARTING, now, f"failure {failures}, the next start is in {pause:.0f} s")
    return replace(waiting, failures=failures, retry_at=now + pause)


def decide(wish: Wish, actual: Actual, now: float) -> tuple[Action, Actual]:
    """The next step towards ``wish``, and the state once it has been taken."""
    if actual.state in (State.PAUSING, State.DRAINING):
        return Action.NOTHING, actual  # first the end of what runs
    is_loaded = actual.state in LOADED
    if wish.wanted == "absent":
        action = Action.UNLOAD if is_loaded else Action.REMOVE
        return action, actual.moved(State.DRAINING, now, "being deleted")
    if wish.wanted == "paused":
        if is_loaded:
            return Action.UNLOAD, actual.moved(State.PAUSING, now)
        return Action.NOTHING, actual if actual.state is State.PAUSED else actual.moved(State.PAUSED, now)
    if is_loaded:
        if actual.revision == wish.revision:
            return Action.NOTHING, actual
        return Action.UNLOAD, actual.moved(State.DRAINING, now, "a new version replaces it")
    return _start(wish, actual, now)


def _start(wish: Wish, actual: Actual, now: float) -> tuple[Action, Actual]:
    if wish.problem:
        failed = replace(actual.moved(State.FAILED, now, "the file cannot be used"), error=wish.problem)
        return Action.NOTHING, replace(failed, revision=wish.revision)
    is_new = actual.revision != wish.revision or actual.state is State.PAUSED
    if not is_new and actual.state in (State.FAILED, State.FINISHED):
        return Action.NOTHING, actual
    if not is_new and actual.retry_at is not None and now < actual.retry_at:
        return Action.NOTHING, actual
    restarts = actual.restarts + (not is_new and actual.state is State.RESTARTING)
    started = replace(actual.moved(State.STARTING, now), revision=wish.revision, restarts=restarts)
    return Action.LOAD, replace(started, failures=0, error="", remedy="") if is_new else started


def restart_pause(failures: int, chance: float) -> float:
    """Seconds before the start that follows the given number of failures in a row."""
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures - 1, 20)) * (1 + chance / 2))
