"""Why and when a run ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streamling.clock import Clock
from streamling.engine.checkpoint.checkpointer import Checkpointer
from streamling.engine.checkpoint.coordinator import terminal_wait
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.plugins.sources import AnySource

log = logging.getLogger(__name__)

#: part of the shutdown budget that is reserved for closing the state, the metrics and Spark
_RESERVE_SECONDS = 2.0


class Termination:
    """A run ends when a part of it fails, when a stop is requested, or when its last flow has ended. All methods
    may be called from any thread."""

    def __init__(self, clock: Clock, budget: float) -> None:
        """``budget``: seconds that a stop may take."""
        self._clock = clock
        self._budget = budget
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._running: set[str] = set()
        #: set as soon as operators should end what takes long
        self.stopping = threading.Event()
        #: the first failure
        self.failure: StreamlingError | None = None
        #: the reason of the first request to stop
        self.reason: str | None = None
        #: whether the last, unfinished epoch must not be committed
        self.keeps_position = False
        #: called when `wait` returns, from any thread, and possibly several times
        self.on_finish: Callable[[], None] = lambda: None

    def watch(self, flows: Iterable[str]) -> None:
        """Set the flows that the run consists of."""
        self._running = set(flows)

    def request_stop(self, reason: str, keep_position: bool) -> None:
        """Request a stop; the first reason counts."""
        with self._changed:
            self.keeps_position |= keep_position
            if self.reason is None:
                self.reason = reason
                # closing the rest after the operators takes time, too
                self._deadline = self._clock.now() + self._budget - min(_RESERVE_SECONDS, self._budget / 4)
                self.stopping.set()
            self._changed.notify_all()

    def fail(self, error: StreamlingError) -> bool:
        """End the run with ``error``. False if it has already failed."""
        with self._changed:
            is_first = self.failure is None
            if is_first:
                self.failure = error
            self._changed.notify_all()
        return is_first

    def flow_ended(self, flow: str) -> None:
        with self._changed:
            self._running.discard(flow)
            self._changed.notify_all()
            is_last = not self._running
        if is_last:
            self.on_finish()

    def is_running(self, flow: str) -> bool:
        return flow in self._running

    @property
    def is_due(self) -> bool:
        """Whether the run has a reason to end."""
        return self.failure is not None or self.reason is not None or not self._running

    def wait(self) -> None:
        """Wait until the run has a reason to end."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_due)

    def wait_for_request(self) -> None:
        """Wait until a stop is requested."""
        with self._changed:
            self._changed.wait_for(lambda: self.reason is not None)

    def countdown(self) -> Callable[[], float]:
        """Return a function that returns the seconds left for closing the parts of the run, at least 0.1."""
        deadline = self._deadline or self._clock.now() + self._budget
        return lambda: max(0.1, deadline - self._clock.now())

    def exits_fast(self, config: AppConfig, sources: Iterable[AnySource[Any]]) -> bool:
        """Return whether to skip the last checkpoint: ``drain_policy: fast`` does after a signal, but not for bounded
        work."""
        if self.reason is None or config.drain_policy != "fast":
            return False
        if any(source.always_drains for source in sources):
            log.warning("drain_policy 'fast' does not apply to bounded sources: draining")
            return False
        return True

    def run_last_checkpoint(
        self,
        checkpoints: Checkpointer,
        config: AppConfig,
        add_cause: Callable[[StreamlingError], StreamlingError],
    ) -> None:
        """Store the last positions; a failure gets the cause that ``add_cause`` knows. A stop has a deadline, bounded
        work that has ended does not."""
        wait = terminal_wait(self._budget) if self.reason else config.checkpoint_timeout_sec
        if checkpoints.terminal(wait) or self.keeps_position:
            return
        missing = checkpoints.missing() or "nothing"
        failure = StreamlingError(
            f"the final checkpoint was not completed within {wait:g} s: waiting for {missing}; rows since the last "
            "checkpoint will be replayed",
            remedy="raise shutdown_budget_secs if the sink only needs more time" if self.reason else None,
        )
        self.fail(add_cause(failure))

    def fail_busy(self, parts: Sequence[str]) -> None:
        """Fail because ``parts`` have not ended in time."""
        self.fail(
            StreamlingError(
                f"still busy after shutdown_budget_secs ({self._budget:g} s): {', '.join(parts)}; rows since the last "
                "checkpoint will be replayed"
            )
        )
