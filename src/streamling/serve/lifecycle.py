"""The life of a pipeline as pure functions: reports of its runtime become a state, state and wish become an action.

Nothing here has threads, clocks or I/O; `reconciler.py` calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from streamling.retry import backoff_delay
from streamling.serve.model import PipelineKey
from streamling.serve.runtime import JvmDeath, Phase, Report

#: seconds between restarts: they double from the first to the longest
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 300.0
#: After running for this long, the next failure counts as the first one, and a suspect is cleared.
_STABLE_SECONDS = 60.0
#: A suspect waits this long for the starts of pipelines that are not: its trial may interrupt them.
_SETTLE_SECONDS = 15.0
#: After running for this long, with a checkpoint, a failure is history: people who look later need not know it.
_FORGET_SECONDS = 600.0


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
#: why a suspect has not been started yet
_SUSPECTED = "Spark ended while it was running a query of this pipeline; such pipelines start one at a time"


@dataclass(frozen=True)
class Wish:
    """What the catalogue says about a pipeline."""

    wanted: Literal["running", "paused", "absent"]
    revision: int = 0
    #: why it cannot be started at all
    problem: str = ""
    #: whether its queries can end no JVM that others use
    has_own_jvm: bool = False


@dataclass(frozen=True)
class PipelineFailure:
    """Why a pipeline ended."""

    message: str
    remedy: str = ""
    #: the node that failed; empty if it is none, or not known
    node: str = ""
    at: float = 0.0


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
    #: kept while the pipeline runs again, until it has worked for a while or the user starts it
    last_failure: PipelineFailure | None = None
    #: restarts after failures since the user, or the server, started it, and when that was
    restarts: int = 0
    restarts_since: float | None = None
    #: failures in a row
    failures: int = 0
    #: when a failed pipeline is started again
    retry_at: float | None = None
    #: How often the JVM has ended while it was evaluating something for this pipeline, since the pipeline was last
    #: proven. Such a suspect starts when no other one is on trial.
    suspicions: int = 0
    #: seconds that it had run when it became a suspect
    ran: float = 0.0

    def moved(self, state: State, now: float, reason: str = "") -> Actual:
        """Return the same in another state."""
        since = self.since if state is self.state else now
        return replace(self, state=state, since=since, reason=reason, ready=False, retry_at=None)


def observe(actual: Actual, report: Report, now: float, chance: float) -> Actual:
    """Return ``actual`` after the runtime has reported; ``chance`` between 0 and 1 spreads restarts."""
    if report.phase is Phase.STARTING:
        return actual
    if report.phase is Phase.RUNNING:
        if actual.state is State.STARTING:
            actual = replace(actual.moved(State.RUNNING, now), error="", remedy="")
        if report.proven or _is_stable(actual, now):
            actual = replace(actual, suspicions=0)
        if report.ready and actual.state is State.RUNNING and now - actual.since >= _FORGET_SECONDS:
            actual = replace(actual, last_failure=None)
        return replace(actual, ready=report.ready and actual.state is State.RUNNING, reason=report.reason)
    if report.phase is Phase.STOPPING:
        return replace(actual, ready=False, reason=report.reason)
    ended = _ended(actual, report, now, chance)
    return _failed(ended, ended.error, ended.remedy, report.node, now) if ended.error else ended


def _failed(actual: Actual, error: str, remedy: str, node: str, now: float) -> Actual:
    return replace(actual, error=error, remedy=remedy, last_failure=PipelineFailure(error, remedy, node, now))


def _ended(actual: Actual, report: Report, now: float, chance: float) -> Actual:
    failure = replace(actual, error=report.error, remedy=report.remedy)
    if report.jvm_death is not None and actual.state in (State.STARTING, State.RUNNING):
        return _lost_jvm(failure, report.jvm_death, now, chance)
    if actual.state is State.PAUSING:
        return failure.moved(State.PAUSED, now)
    if actual.state is State.DRAINING:
        return replace(failure.moved(State.PENDING, now), revision=None)
    if not report.error:
        return replace(failure.moved(State.FINISHED, now, "all sources have ended"), suspicions=0)
    if not report.retriable:
        return failure.moved(State.FAILED, now, "the error is permanent")
    failures = 1 if _is_stable(actual, now) else actual.failures + 1
    delay = restart_delay(failures, chance)
    waiting = failure.moved(State.RESTARTING, now, f"failure {failures} in a row")
    return replace(waiting, failures=failures, retry_at=now + delay)


def _is_stable(actual: Actual, now: float) -> bool:
    return actual.state is State.RUNNING and now - actual.since >= _STABLE_SECONDS


def _lost_jvm(actual: Actual, death: JvmDeath, now: float, chance: float) -> Actual:
    """Return the state after the JVM has ended. It may have been any of the pipelines for which it was evaluating
    something, unless this one was the only suspect that ran. The first restart is at once, the next ones after delays:
    whatever ends the JVM might do so for ever."""
    failures = 1 if _is_stable(actual, now) else actual.failures + 1
    delay = restart_delay(failures - 1, chance) if failures > 1 else 0.0
    again = actual.moved(State.RESTARTING, now, "Spark has ended and is started again")
    again = replace(again, failures=failures, retry_at=now + delay)
    if not death.evaluating:
        return again
    if actual.suspicions and death.alone:
        failed = actual.moved(State.FAILED, now, "its query ends the JVM that all pipelines share")
        return replace(
            failed,
            error=f"its query ended the JVM {actual.suspicions + 1} times: {actual.error}",
            remedy="change the SQL so that it needs less memory, or run the pipeline with isolation: process",
        )
    ran = now - actual.since if actual.state is State.RUNNING else 0.0
    return replace(again, suspicions=actual.suspicions + 1, ran=ran)


def next_on_trial(pipelines: Mapping[PipelineKey, tuple[Wish, Actual]], now: float) -> PipelineKey | None:
    """Return the suspect that may start now: one at a time, so that another death of the JVM shows which one it was.
    The most suspicious one is first, then the one that had run for the shortest time: it is likely to be the new
    one."""
    suspects = {key: actual for key, (_, actual) in pipelines.items() if actual.suspicions}
    if any(_is_on_trial(suspect, now) for suspect in suspects.values()):
        return None
    startable = {key for key, (wish, actual) in pipelines.items() if decide(wish, actual, now)[0] is Action.LOAD}
    waiting = [key for key in suspects if key in startable]
    if not waiting:
        return None
    first = min(waiting, key=lambda key: (-suspects[key].suspicions, suspects[key].ran, key))
    has_waited = now - suspects[first].since >= _SETTLE_SECONDS
    others = pipelines.keys() - suspects.keys()
    is_settled = not any(key in startable or pipelines[key][1].state is State.STARTING for key in others)
    return first if has_waited or is_settled else None


def _is_on_trial(suspect: Actual, now: float) -> bool:
    """Return whether ``suspect`` is on trial; a start that hangs does not hold up the others."""
    is_starting = suspect.state is State.STARTING and now - suspect.since < _STABLE_SECONDS
    return is_starting or suspect.state is State.RUNNING


def decide(wish: Wish, actual: Actual, now: float, may_start: bool = True) -> tuple[Action, Actual]:
    """Return the next step towards ``wish``, and the state once it has been taken. A suspect ``may_start`` if it is
    next."""
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
    action, after = _start(wish, actual, now)
    if action is Action.LOAD and after.suspicions and not may_start:
        return Action.NOTHING, replace(actual, reason=_SUSPECTED)
    return action, after


def _start(wish: Wish, actual: Actual, now: float) -> tuple[Action, Actual]:
    if wish.problem:
        failed = _failed(actual.moved(State.FAILED, now, "the file cannot be used"), wish.problem, "", "", now)
        return Action.NOTHING, replace(failed, revision=wish.revision)
    is_new = actual.revision != wish.revision or actual.state is State.PAUSED
    if not is_new and actual.state in (State.FAILED, State.FINISHED):
        return Action.NOTHING, actual
    if not is_new and actual.retry_at is not None and now < actual.retry_at:
        return Action.NOTHING, actual
    restarts = actual.restarts + (not is_new and actual.state is State.RESTARTING)
    started = replace(actual.moved(State.STARTING, now), revision=wish.revision, restarts=restarts)
    if wish.has_own_jvm:
        started = replace(started, suspicions=0)
    if is_new:
        started = replace(started, failures=0, error="", remedy="", last_failure=None, restarts=0, restarts_since=now)
    return Action.LOAD, started


def restart_delay(failures: int, chance: float) -> float:
    """Return the seconds before the start that follows the given number of failures in a row."""
    return backoff_delay(failures, chance, first=_FIRST_DELAY, longest=_LONGEST_DELAY)
