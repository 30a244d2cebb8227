"""The task around the coordinator: passes events to it and performs its actions."""

from __future__ import annotations

import copy
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from streamling.clock import Clock
from streamling.engine.checkpoint.coordinator import Coordinator
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
from streamling.observe.epochs import EpochLog, EpochRecord
from streamling.tasks import Steps, Task

if TYPE_CHECKING:
    from streamling.plugins.context import Metrics
    from streamling.plugins.sources import Position

log = logging.getLogger(__name__)

#: how many seconds an abandoned final checkpoint waits for the state backend
_STOP_SECONDS = 0.5


class MarkerTarget(Protocol):
    """A flow, as checkpoints see it."""

    def request_marker(self, epoch: int) -> None:
        """Send a marker of ``epoch`` to all lanes at the next batch boundary, then call `Checkpointer.marked`. Must not
        block. A newer request replaces one that has not been handled yet. A flow that has ended reports its last
        position."""


class PositionStore(Protocol):
    """The part of the state backend that checkpoints need."""

    def put_positions(self, entries: Mapping[str, Any]) -> None:
        """Store all entries or none; a value of None removes the key."""


class Checkpointer:
    """Runs checkpoints from `start` until `terminal` or `stop`.

    ``on_finalized`` and ``on_failure`` are called by its task; after a failure nothing more happens. The methods may be
    called from any thread and never block, except `terminal` and `stop`.
    """

    def __init__(
        self,
        *,
        flows: Mapping[str, MarkerTarget],
        sinks: Collection[str],
        state: PositionStore,
        on_finalized: Callable[[int, Mapping[str, Position]], None],
        on_failure: Callable[[StreamlingError], None],
        interval: float,
        clock: Clock,
        timeout: float = 300,
        metrics: Metrics | None = None,
        epochs: EpochLog | None = None,
    ) -> None:
        self._epochs = epochs or EpochLog()
        self._flows = dict(flows)
        self._state = state
        self._on_finalized = on_finalized
        self._on_failure = on_failure
        self._clock = clock
        self._metrics = metrics
        self._coordinator = Coordinator(flows=flows, sinks=sinks, interval=interval, timeout=timeout, now=clock.now())
        self._inbox: deque[Event] = deque()
        self._changed = threading.Condition()
        #: the last epoch that was started, and the last one that became final
        self._begun = 0
        self._final = 0
        #: when the last one became final
        self._final_at: float | None = None
        self._terminal_finalized = False
        self._ended = False
        self._task = Task(self._run, "checkpoint", clock)

    def start(self) -> None:
        self._task.start()

    # ── from flows and lanes ────────────────────────────────────────────────────────────────────────────────

    def moved(self) -> None:
        """Report that a flow has delivered a batch. Called for the first one after a marker: without it, no epoch
        begins."""
        self._send(Moved())

    def marked(self, flow: str, epoch: int, position: Position) -> None:
        """Report that ``flow`` is at a batch boundary: rows up to ``position`` and the marker after them are in its
        lanes."""
        # a copy: the source continues, and may change the object that it returned
        self._send(Marked(flow, epoch, copy.deepcopy(dict(position))))

    def acked(self, sink: str, epoch: int, entries: Mapping[str, Any] | None = None) -> None:
        """Report that everything before the marker of ``epoch`` is durable in ``sink``, or will be as soon as
        ``entries`` are stored with the positions."""
        self._send(Ack(sink, epoch, entries or {}))

    # ── from the engine ─────────────────────────────────────────────────────────────────────────────────────

    def checkpoint(self, timeout: float) -> bool:
        """Run an epoch now and wait for it. True if everything that flows had delivered before the call is stored."""
        with self._changed:
            begun = self._begun
        self._send(Requested())
        with self._changed:
            self._clock.wait_for(self._changed, lambda: self._final > begun or self._ended, timeout)
            return self._final > begun

    def terminal(self, timeout: float) -> bool:
        """Run the last epoch and wait for it. True if it was finalized. False if it failed or timed out: then it is not
        committed later, either. Several callers share one terminal epoch."""
        self._send(TerminalRequested())
        if not self._await_end(timeout):
            self.stop(_STOP_SECONDS)
        if not self._terminal_finalized:
            self._count("checkpoint_terminal_finalizer_skipped")
        return self._terminal_finalized

    def stop(self, timeout: float | None = None) -> None:
        """Start no further epochs and do not commit the one in flight. Returns when its task has ended, or after
        ``timeout`` seconds: a state backend may hang."""
        self._send(Stop())
        if self._task.is_alive and not self._task.is_current:
            self._await_end(timeout)

    @property
    def epoch(self) -> int | None:
        """The last epoch that became final; None before the first."""
        return self._final or None

    def age(self) -> float | None:
        """Return the seconds since the last epoch became final; None before the first."""
        return None if self._final_at is None else self._clock.now() - self._final_at

    def missing(self) -> str | None:
        """Return what the epoch in flight waits for, or waited for when it was abandoned; None if for nothing."""
        if self._coordinator.abandoned_waiting_for:
            return self._coordinator.abandoned_waiting_for
        if self._ended or self._coordinator.elapsed(0) is None:
            return None
        return self._coordinator.missing()

    def stalled(self, seconds: float) -> str | None:
        """Return what the epoch in flight waits for if it has been running for longer than ``seconds``; otherwise
        None."""
        elapsed = self._coordinator.elapsed(self._clock.now())
        return self.missing() if elapsed is not None and elapsed > seconds else None

    def _send(self, event: Event) -> None:
        self._inbox.append(event)
        self._task.wake()

    def _await_end(self, timeout: float | None) -> bool:
        with self._changed:
            return self._clock.wait_for(self._changed, lambda: self._ended, timeout)

    # ── the task ────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> Steps:
        try:
            while not self._coordinator.is_finished:
                due = self._due()
                if self._inbox:
                    self._handle(self._inbox.popleft())
                elif due is not None and due <= 0:
                    self._handle(Tick())
                else:
                    yield due
        except (Exception, SystemExit) as error:
            self._on_failure(StreamlingError.wrap(error, "the checkpoints failed"))
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _due(self) -> float | None:
        """Return the seconds until the coordinator wants to be called; None if not before the next event."""
        wake_at = self._coordinator.wake_at()
        return None if wake_at is None else wake_at - self._clock.now()

    def _handle(self, event: Event) -> None:
        now = self._clock.now()
        if isinstance(event, Ack):
            self._measure_ack(event, now)
            self._epochs.acked(event.sink, event.epoch)
        elif isinstance(event, Marked):
            self._epochs.marked(event.flow, event.epoch, event.position)
        for action in self._coordinator.handle(event, now):
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Marker():
                log.debug("checkpoint %d%s started", action.epoch, " (final)" if action.terminal else "")
                self._count("checkpoint_markers_sent", len(self._flows))
                self._epochs.started(action.epoch, action.terminal, self._flows, self._coordinator.awaited_sinks())
                self._gauge_in_flight(1)
                with self._changed:
                    self._begun = action.epoch
                for flow in self._flows.values():
                    flow.request_marker(action.epoch)
            case Store():
                self._handle(self._store(action))
            case Finalizer():
                self._finalize(action)
            case Failure():
                self._count("checkpoint_epochs_failed")
                self._epochs.failed()
                self._gauge_in_flight(0)
                self._on_failure(action.error)
            case Warn():
                log.warning(action.message)

    def _store(self, action: Store) -> Event:
        self._epochs.storing(action.epoch)
        try:
            self._state.put_positions(action.entries)
        except Exception as error:
            return StoreFailed(action.epoch, StreamlingError.wrap(error, "state backend"))
        return Stored(action.epoch)

    def _finalize(self, action: Finalizer) -> None:
        log.debug("checkpoint %d is final after %.3f s", action.epoch, action.seconds)
        self._on_finalized(action.epoch, action.positions)
        self._terminal_finalized = action.terminal
        with self._changed:
            self._final = action.epoch
            self._final_at = self._clock.now()
            self._changed.notify_all()
        self._count("checkpoint_epochs_succeeded")
        self._count("checkpoint_finalizers_sent")
        self._gauge_in_flight(0)
        if self._metrics:
            self._metrics.latency("checkpoint_epoch_duration", action.seconds)
        record = self._epochs.finalized(action.epoch, action.seconds)
        if record is not None:
            self._measure_epoch(record, action.seconds)

    def _measure_ack(self, ack: Ack, now: float) -> None:
        elapsed = self._coordinator.elapsed(now)
        if self._metrics and elapsed is not None:
            self._metrics.count("checkpoint_acks_received")
            self._metrics.latency("checkpoint_per_sink_ack_latency", elapsed, {"sink": ack.sink})

    def _measure_epoch(self, record: EpochRecord, seconds: float) -> None:
        if self._metrics is None:
            return
        for sink, acked in record.acks.items():
            arrived, tags = record.arrivals.get(sink, acked), {"sink": sink}
            self._metrics.latency("checkpoint_marker_arrival", arrived, tags)
            self._metrics.latency("checkpoint_sink_flush", max(0.0, acked - arrived), tags)
            self._metrics.latency("checkpoint_finalization_wait", max(0.0, seconds - acked), tags)

    def _gauge_in_flight(self, epochs: int) -> None:
        if self._metrics:
            self._metrics.gauge("checkpoint_epochs_in_flight", epochs)

    def _count(self, name: str, value: int = 1) -> None:
        if self._metrics:
            self._metrics.count(name, value)
