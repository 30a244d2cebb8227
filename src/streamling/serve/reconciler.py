"""Brings the runtimes to what the catalogue says: a loop around the pure functions of `lifecycle.py`."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from streamling.errors import StreamlingError
from streamling.observe.rate_history import RateHistory
from streamling.redaction import redact
from streamling.serve.background import Background
from streamling.serve.catalogue import Catalogue
from streamling.serve.lifecycle import LOADED, Action, Actual, State, Wish, decide, next_on_trial, observe
from streamling.serve.model import Isolation, PipelineKey, PipelineRecord
from streamling.serve.runtime import Measures, Phase, PipelineHandle, PipelineRuntime, Report

log = logging.getLogger(__name__)

#: Seconds between two passes without a request: readiness and retries of running pipelines are looked at.
_PASS_SECONDS = 1.0
#: For this time after its start, a pipeline is looked at more often until it is ready.
_CONNECTING_SECONDS, _CONNECTING_PASS_SECONDS = 10.0, 0.1
#: Seconds before the state of a deleted pipeline is deleted again after a failure.
_REMOVE_RETRY_SECONDS = 5.0
#: Deletions that run side by side.
_REMOVALS = 4


@dataclass
class _Entry:
    """A pipeline as the reconciler knows it."""

    actual: Actual
    handle: PipelineHandle | None = None
    #: what the last run has done
    measures: Measures = field(default_factory=Measures)
    #: rates and lag of the last hour
    history: RateHistory = field(default_factory=RateHistory)
    is_removing: bool = False


class Reconciler:
    """Runs until `stop`. The other methods may be called from any thread."""

    def __init__(
        self,
        catalogue: Catalogue,
        runtimes: Mapping[Isolation, PipelineRuntime],
        delete_state: Callable[[PipelineRecord], None],
        *,
        on_ended: Callable[[], None] = lambda: None,
        on_removed: Callable[[PipelineKey], None] = lambda key: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalogue = catalogue
        self._runtimes = runtimes
        self._delete_state = delete_state
        self._on_ended = on_ended
        self._on_removed = on_removed
        self._clock = clock
        self._entries: dict[PipelineKey, _Entry] = {}
        self._woken = threading.Event()
        self._is_stopping = False
        self._removals = Background(_REMOVALS)
        self._thread = threading.Thread(target=self._loop, name="reconciler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look at what has changed, now."""
        self._woken.set()

    def stop(self) -> None:
        """Unload everything; returns immediately. `join` waits for the end."""
        self._is_stopping = True
        self.wake()

    def join(self) -> None:
        """Wait until nothing is loaded any more."""
        self._thread.join()

    def loaded(self) -> list[str]:
        """Return the pipelines that a runtime still holds, and what they wait for."""
        found = [(key, entry) for key, entry in list(self._entries.items()) if entry.handle is not None]
        return [f"{key} ({entry.actual.reason})" if entry.actual.reason else str(key) for key, entry in found]

    def actual(self, key: PipelineKey) -> Actual:
        """Return the state of a pipeline."""
        entry = self._entries.get(key)
        return Actual(since=self._clock()) if entry is None else entry.actual

    def measure(self, key: PipelineKey) -> Measures:
        """Return what a pipeline has done since it was loaded."""
        entry = self._entries.get(key)
        if entry is None:
            return Measures()
        return entry.measures if entry.handle is None else entry.handle.measure()

    def history(self, key: PipelineKey) -> RateHistory:
        """Return rates and lag of a pipeline, over all of its runs of the last hour."""
        entry = self._entries.get(key)
        return RateHistory() if entry is None else entry.history

    def record_rates(self, now: float) -> None:
        """Add what runs to the histories."""
        for key, entry in list(self._entries.items()):
            handle = entry.handle
            try:
                if handle is not None and (counts := handle.counts()) is not None:
                    entry.history.add(now, counts)
            except Exception:
                log.exception("%s: its rates cannot be recorded now", key)
            if entry.handle is not handle:  # it has ended meanwhile
                entry.history.end(now, None)

    def handle(self, key: PipelineKey) -> PipelineHandle | None:
        """Return the loaded pipeline."""
        entry = self._entries.get(key)
        return None if entry is None else entry.handle

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────

    def _loop(self) -> None:
        while not (self._is_stopping and not self.loaded()):
            self._woken.clear()
            try:
                self._pass(self._records())
                seconds = self._seconds_to_next_pass()
            except Exception:
                log.exception("the reconciler failed and tries again")
                seconds = _PASS_SECONDS
            self._woken.wait(seconds)

    def _seconds_to_next_pass(self) -> float:
        """Return the seconds until the next pass: few while a pipeline that was just started may become ready."""
        recently = self._clock() - _CONNECTING_SECONDS
        found = [entry.actual for entry in list(self._entries.values())]
        connecting = any(each.state is State.RUNNING and not each.ready and each.since > recently for each in found)
        return _CONNECTING_PASS_SECONDS if connecting else _PASS_SECONDS

    def _records(self) -> Mapping[PipelineKey, PipelineRecord]:
        try:
            self._catalogue.refresh()
        except StreamlingError as error:
            log.warning("the catalogue cannot be read, pipelines continue as they are: %s", error)
        return self._catalogue.records()

    def _pass(self, records: Mapping[PipelineKey, PipelineRecord]) -> None:
        on_trial = next_on_trial(
            {key: (_wish(records.get(key)), entry.actual) for key, entry in list(self._entries.items())}, self._clock()
        )
        # a copy: threads that remove pipelines change it
        for key in [*records, *(key for key in list(self._entries) if key not in records)]:
            now = self._clock()
            entry = self._entries.setdefault(key, _Entry(Actual(since=now)))
            try:
                if entry.handle is not None:
                    self._observe(entry, now)
                self._step(key, records.get(key), entry, now, may_start=key == on_trial)
            except Exception as error:  # such as no more processes; the other pipelines are not affected
                log.exception("%s: the next step failed and is tried again", key)
                if entry.handle is None:
                    report = Report(Phase.ENDED, error=f"{type(error).__name__}: {error}", retriable=True)
                    entry.actual = observe(entry.actual, report, now, random.random())

    def _observe(self, entry: _Entry, now: float) -> None:
        assert entry.handle is not None
        entry.actual = observe(entry.actual, entry.handle.report(), now, random.random())
        if entry.actual.suspicions and entry.actual.state is State.RUNNING:
            entry.handle.checkpoint(0)  # the sooner it is proven, the sooner the next suspect starts
        if entry.actual.state not in LOADED:
            entry.measures = replace(entry.handle.measure(), threads=0)
            entry.history.end(now, entry.handle.counts())
            entry.handle = None
            self._on_ended()

    def _step(
        self, key: PipelineKey, record: PipelineRecord | None, entry: _Entry, now: float, *, may_start: bool
    ) -> None:
        if self._is_stopping:
            self._stop(entry, now)
            return
        if entry.is_removing:
            return
        action, entry.actual = decide(_wish(record), entry.actual, now, may_start)
        if action is Action.LOAD and record is not None:
            entry.handle = self._runtimes[record.isolation].load(record, self.wake)
        elif action is Action.UNLOAD and entry.handle is not None:
            entry.handle.unload()
        elif action is Action.REMOVE:
            entry.is_removing = True
            self._removals.run(partial(self._remove, key, record, entry), f"remove {key}")

    def _stop(self, entry: _Entry, now: float) -> None:
        """Drain a pipeline because the server stops. One that still starts has read nothing: it is not waited for."""
        if entry.handle is None:
            return
        if entry.handle.report().phase is Phase.STARTING:
            entry.handle.unload()
            entry.handle = None
        elif entry.actual.state not in (State.PAUSING, State.DRAINING):
            entry.actual = entry.actual.moved(State.DRAINING, now, "the server stops")
            entry.handle.unload()

    def _remove(self, key: PipelineKey, record: PipelineRecord | None, entry: _Entry) -> None:
        """Forget a deleted pipeline, with its state if that was requested; retried until it succeeds."""
        try:
            if record is not None:
                if record.deleting == "delete":
                    self._delete_state(record)
                self._catalogue.remove(key)
        except Exception as error:
            text = redact(
                error.with_causes if isinstance(error, StreamlingError) else f"{type(error).__name__}: {error}"
            )
            log.warning("%s: the state cannot be deleted yet: %s", key, text)
            entry.actual = replace(entry.actual, error=text, reason="its state cannot be deleted yet")
            timer = threading.Timer(_REMOVE_RETRY_SECONDS, self._retry_removal, (entry,))
            timer.daemon = True
            timer.start()
        else:
            self._entries.pop(key, None)
            self._on_removed(key)
            self.wake()

    def _retry_removal(self, entry: _Entry) -> None:
        entry.actual = entry.actual.moved(State.PENDING, self._clock())
        entry.is_removing = False
        self.wake()


def _wish(record: PipelineRecord | None) -> Wish:
    if record is None or record.deleting is not None:
        return Wish("absent")
    return Wish(record.desired, record.revision, record.problem or "", record.isolation == "process")
