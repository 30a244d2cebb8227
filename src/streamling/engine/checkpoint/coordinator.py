"""The checkpoint protocol as a state machine: takes events and the time, returns actions. No threads.

An epoch is first *open* (flows and sinks report in any order), then *storing* (all have reported; the positions are
written to the state backend), then final. A position is stored only after every expected sink has acknowledged the
epoch and every flow has marked it: this guarantees at-least-once delivery.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from streamling.engine.checkpoint.messages import (
    Ack,
    Action,
    Event,
    Failure,
    Finalizer,
    Marked,
    Marker,
    Moved,
    Requested,
    Stop,
    Store,
    Stored,
    StoreFailed,
    TerminalRequested,
    Tick,
    Warn,
)
from streamling.errors import StreamlingError
from streamling.plugins.state_backend import FencedError
from streamling.retry import backoff_delay

if TYPE_CHECKING:
    from streamling.plugins.sources import Position

#: Seconds between two warnings about an epoch that makes no progress.
WARN_EVERY: Final = 10.0

_ABSENT: Final = object()


def terminal_wait(budget: float) -> float:
    """Return how many of the ``budget`` seconds of a shutdown may be spent waiting for the terminal epoch."""
    return max(budget / 2 if budget < 4 else 0.0, min(5.0, budget - 2), min(budget - 10, budget // 2))


@dataclass
class _Epoch:
    number: int
    started: float
    terminal: bool
    warn_at: float
    marked: dict[str, Position] = field(default_factory=dict)
    acked: set[str] = field(default_factory=set)
    #: entries of the sinks that are stored with the positions
    extra: dict[str, Any] = field(default_factory=dict)
    #: positions that have changed, and everything to store; None until all flows and sinks have reported
    positions: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, Any] | None = None
    #: when storing started, how often it has failed, the last error, and the time of the next attempt
    stored_from: float = 0.0
    failures: int = 0
    last_error: StreamlingError | None = None
    retry_at: float | None = None

    @property
    def storing(self) -> bool:
        return self.entries is not None


class Coordinator:
    """Decides when an epoch starts, when it is complete, and when it has failed."""

    def __init__(
        self, *, flows: Collection[str], sinks: Collection[str], interval: float, timeout: float, now: float
    ) -> None:
        self._flows = frozenset(flows)
        self._sinks = frozenset(sinks)
        self._interval = interval
        self._timeout = timeout
        self._next_start = now + interval
        self._last_epoch = 0
        self._epoch: _Epoch | None = None
        self._stored: dict[str, Any] = {}
        #: whether a flow has moved since the epoch in flight, or the last one, began
        self._has_moved = False
        #: nothing has changed in the last epoch: the next one begins when a flow has moved
        self._is_idle = False
        self._wanted = False
        self._terminal_wanted = False
        self._over = False
        #: what the terminal epoch waited for when it was abandoned
        self.abandoned_waiting_for = ""

    @property
    def is_finished(self) -> bool:
        """Whether no more epochs will be finalized: stopped, failed, or the terminal one is complete."""
        return self._over

    def elapsed(self, now: float) -> float | None:
        """Return the seconds since the epoch in flight was started; None if there is none."""
        return now - self._epoch.started if self._epoch else None

    def wake_at(self) -> float | None:
        """Return when the next `Tick` is due; None if not before another event."""
        if self._over:
            return None
        epoch = self._epoch
        if epoch is None:
            return None if self._is_idle else self._next_start
        moments = [epoch.warn_at, epoch.retry_at, self._deadline(epoch)]
        return min(moment for moment in moments if moment is not None)

    def _deadline(self, epoch: _Epoch) -> float | None:
        # the caller of the terminal epoch has its own timeout; storing is abandoned when it fails too late
        return None if epoch.terminal or epoch.storing else epoch.started + self._timeout

    def awaited_sinks(self) -> Collection[str]:
        """Return the sinks that an epoch waits for."""
        return self._sinks

    def missing(self) -> str:
        """Return what the epoch in flight waits for, for people."""
        if self._epoch is None:
            return "nothing"
        sinks = _names("sink", self._sinks - self._epoch.acked)
        flows = _names("source", self._flows - self._epoch.marked.keys())
        return " and ".join(filter(None, (flows, sinks))) or "the state backend"

    def handle(self, event: Event, now: float) -> list[Action]:
        """Process ``event`` and return the actions to perform."""
        if self._over:
            return []
        match event:
            case Tick():
                return self._tick(now)
            case Moved():
                self._has_moved, self._is_idle = True, False
                return []
            case Marked():
                return self._marked(event, now)
            case Ack():
                return self._acked(event, now)
            case Requested():
                return self._want(now)
            case TerminalRequested():
                return self._terminal(now)
            case Stored():
                return self._finalize(now) if self._is_storing(event.epoch) else []
            case StoreFailed():
                return self._store_failed(event, now) if self._is_storing(event.epoch) else []
            case Stop():
                return self._stop()

    # ── starting an epoch ───────────────────────────────────────────────────────────────────────────────────

    def _begin(self, now: float, *, terminal: bool) -> list[Action]:
        self._last_epoch += 1
        self._has_moved = False
        self._epoch = _Epoch(self._last_epoch, started=now, terminal=terminal, warn_at=now + WARN_EVERY)
        return [Marker(self._last_epoch, terminal)]

    def _want(self, now: float) -> list[Action]:
        if self._epoch is None:
            return self._begin(now, terminal=False)
        self._wanted = True  # the marker of the one in flight may already have passed a flow
        return []

    def _terminal(self, now: float) -> list[Action]:
        if self._terminal_wanted:
            return []
        self._terminal_wanted = True
        if self._epoch is not None and self._epoch.storing:
            return []  # its positions may already be in the backend: it is finalized first
        return self._begin(now, terminal=True)

    def _tick(self, now: float) -> list[Action]:
        epoch = self._epoch
        if epoch is None:
            is_due = not self._is_idle and now >= self._next_start
            return self._begin(now, terminal=False) if is_due else []
        if epoch.retry_at is not None and now >= epoch.retry_at:
            epoch.retry_at = None
            return [Store(epoch.number, epoch.entries or {})]
        deadline = self._deadline(epoch)
        if deadline is not None and now >= deadline:
            return self._fail(self._stuck(epoch, now))
        if now >= epoch.warn_at:
            epoch.warn_at = now + WARN_EVERY
            return [Warn(self._waiting(epoch, now))]
        return []

    # ── reports of flows and sinks ──────────────────────────────────────────────────────────────────────────

    def _marked(self, event: Marked, now: float) -> list[Action]:
        epoch = self._epoch
        if event.flow not in self._flows:
            return [Warn(f"a marker of epoch {event.epoch} by the unknown source '{event.flow}' is ignored")]
        if epoch is None or event.epoch != epoch.number:
            return self._stray(f"source '{event.flow}'", "marker", event.epoch)
        # the first position counts: rows between it and a later one may come after the marker
        epoch.marked.setdefault(event.flow, event.position)
        return self._advance(now)

    def _acked(self, event: Ack, now: float) -> list[Action]:
        epoch = self._epoch
        if event.sink not in self._sinks:
            return [Warn(f"an acknowledgement of epoch {event.epoch} by the unknown sink '{event.sink}' is ignored")]
        if epoch is None or event.epoch != epoch.number:
            return self._stray(f"sink '{event.sink}'", "acknowledgement", event.epoch)
        epoch.acked.add(event.sink)
        epoch.extra.update(event.entries)
        return self._advance(now)

    def _stray(self, sender: str, what: str, epoch: int) -> list[Action]:
        # late reports for an epoch that was finalized or dropped are normal; those for a future one are not
        if epoch <= self._last_epoch:
            return []
        return [Warn(f"{sender} sent the {what} of epoch {epoch}, which has not started; it is ignored")]

    def _advance(self, now: float) -> list[Action]:
        """Store the positions once all flows and sinks have reported."""
        epoch = self._epoch
        if epoch is None or epoch.storing:
            return []
        if self._flows - epoch.marked.keys() or self._sinks - epoch.acked:
            return []
        epoch.positions, epoch.stored_from = self._changes(epoch.marked), now
        epoch.entries = {**epoch.positions, **epoch.extra}
        return [Store(epoch.number, epoch.entries)] if epoch.entries else self._finalize(now)

    def _changes(self, positions: Mapping[str, Position]) -> dict[str, Any]:
        entries = {key: value for position in positions.values() for key, value in position.items()}
        return {key: value for key, value in entries.items() if self._stored.get(key, _ABSENT) != value}

    # ── finishing an epoch ──────────────────────────────────────────────────────────────────────────────────

    def _is_storing(self, number: int) -> bool:
        return self._epoch is not None and self._epoch.storing and self._epoch.number == number

    def _finalize(self, now: float) -> list[Action]:
        epoch, self._epoch = self._epoch, None
        assert epoch is not None
        self._stored.update(epoch.positions)
        # one more epoch follows each change: some sinks delete at the next one what they needed for this one
        self._is_idle = not epoch.positions and not self._has_moved
        self._next_start = max(epoch.started + self._interval, now)
        done: list[Action] = [Finalizer(epoch.number, epoch.marked, epoch.terminal, now - epoch.started)]
        if epoch.failures:
            attempt = epoch.failures + 1
            done.insert(0, Warn(f"checkpoint {epoch.number}: the positions were stored at attempt {attempt}"))
        if epoch.terminal:
            self._over = True
        elif self._terminal_wanted:
            done += self._begin(now, terminal=True)
        elif self._wanted:
            self._wanted = False
            done += self._begin(now, terminal=False)
        return done

    def _store_failed(self, event: StoreFailed, now: float) -> list[Action]:
        epoch = self._epoch
        assert epoch is not None
        if isinstance(event.error, FencedError):
            return self._leave_out(epoch, event.error, now)
        too_late = not epoch.terminal and now - epoch.stored_from >= self._timeout
        if not event.error.retriable or too_late:
            return self._fail(event.error.context(f"checkpoint {epoch.number}: storing the positions"))
        epoch.failures += 1
        epoch.last_error = event.error
        delay = backoff_delay(epoch.failures, 0.0)
        epoch.retry_at = now + delay
        if epoch.failures > 1:
            return []  # logged every `WARN_EVERY` seconds
        epoch.warn_at = now + WARN_EVERY
        failed = f"checkpoint {epoch.number}: storing the positions failed"
        return [Warn(f"{failed}, retrying in {delay:g} s: {event.error}")]

    def _leave_out(self, epoch: _Epoch, error: FencedError, now: float) -> list[Action]:
        """Leave out keys with which another instance continues from what is stored: our positions there are void."""
        entries = epoch.entries or {}
        void = entries.keys() & error.keys
        self._stored.update((key, entries[key]) for key in void)  # not retried
        epoch.entries = {key: value for key, value in entries.items() if key not in void}
        epoch.marked = {
            flow: {key: None if key in void else value for key, value in position.items()}
            for flow, position in epoch.marked.items()
        }
        warning = Warn(f"checkpoint {epoch.number}: {error}; it will replay rows since the last checkpoint")
        return [warning, *([Store(epoch.number, epoch.entries)] if epoch.entries else self._finalize(now))]

    def _stop(self) -> list[Action]:
        if self._epoch is not None and self._epoch.terminal:
            last_error = self._epoch.last_error
            self.abandoned_waiting_for = f"{self.missing()} ({last_error})" if last_error else self.missing()
        self._over, self._epoch = True, None
        return []

    def _fail(self, error: StreamlingError) -> list[Action]:
        self._over, self._epoch = True, None
        return [Failure(error)]

    def _waiting(self, epoch: _Epoch, now: float) -> str:
        stage = "storing" if epoch.storing else "marking" if self._flows - epoch.marked.keys() else "flushing"
        error = f", attempt {epoch.failures}: {epoch.last_error}" if epoch.last_error else ""
        return (
            f"checkpoint {epoch.number} ({stage}) is not complete after {now - epoch.started:.0f} s: "
            f"waiting for {self.missing()}{error}"
        )

    def _stuck(self, epoch: _Epoch, now: float) -> StreamlingError:
        return StreamlingError(
            f"checkpoint {epoch.number} timed out: {self.missing()} did not respond within "
            f"{now - epoch.started:.0f} s; nothing was committed",
            remedy="check for a sink that hangs or is too slow; checkpoint_timeout_sec sets the limit",
        )


def _names(kind: str, names: Collection[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(f"'{name}'" for name in sorted(names))
    return f"{kind} {listed}" if len(names) == 1 else f"{kind}s {listed}"
