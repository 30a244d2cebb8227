"""What the nodes of a run spend their time on: work, waiting for rows, or waiting for a node downstream.

A node that is run by tasks of its own (a source, or a node in lanes) measures its waits; the rest of its time is work.
The work of a node that Spark runs is measured instead, because it has no task of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

from streamling.plugins.context import Metrics

#: returns seconds since some fixed moment
Now = Callable[[], float]
WaitState = Literal["blocked", "starved"]

#: the waits of a node that waits for rows: no node downstream is involved
NO_DOWNSTREAM = ""


@dataclass(frozen=True)
class TimeSpent:
    """Seconds since the start, of all instances of a node together."""

    alive: float = 0.0
    busy: float = 0.0
    starved: float = 0.0
    #: by the node that was waited for
    blocked: Mapping[str, float] | None = None

    @property
    def blocked_total(self) -> float:
        return sum((self.blocked or {}).values())


@dataclass
class Waiting:
    """A wait of a task."""

    state: WaitState
    downstream: str
    #: start of the wait, and of the part of it that has not been added yet
    began: float
    since: float
    #: seconds of it that were work: what was waited for has worked for the node
    worked: float = 0.0


class Activity:
    """The time of one node. All methods may be called from any thread."""

    def __init__(
        self, metrics: Metrics, *, kind: str = "native", event_seconds: float = 0.1, now: Now = time.monotonic
    ) -> None:
        """``kind`` is the tag `execution_kind`. A wait for a node downstream that takes at least ``event_seconds``
        counts as a backpressure event."""
        self._metrics = metrics
        self._now = now
        self.is_plugin = kind == "plugin"
        self._tags = {"execution_kind": kind}
        self._event_seconds = event_seconds
        self._lock = threading.Lock()
        #: the workers that have begun and not ended → since when
        self._alive: dict[Worker, float] = {}
        self._ended = 0.0
        self._waits: list[Waiting] = []
        self._seconds: dict[tuple[WaitState, str], float] = {}
        #: milliseconds that have been counted, as whole numbers
        self._counted: dict[tuple[WaitState, str], int] = {}
        self._work = 0.0
        self._delegated = 0.0
        self._empty_batches = 0
        #: workers for which Spark evaluates something, or did when they failed
        self._evaluating: set[Worker] = set()
        self._evaluates_elsewhere: Callable[[], bool] = lambda: False
        #: rows of the last batch, and how long it took
        self.last_rows, self.last_seconds = 0, 0.0

    # ── work ────────────────────────────────────────────────────────────────────────────────────────────────

    def worker(self) -> Worker:
        """Return what measures a task of the node."""
        return Worker(self)

    def began(self, worker: Worker) -> None:
        with self._lock:
            self._alive[worker] = self._now()

    def ended(self, worker: Worker) -> None:
        with self._lock:
            self._ended += self._now() - self._alive.pop(worker)

    def mark_evaluating(self, worker: Worker, is_evaluating: bool) -> None:
        (self._evaluating.add if is_evaluating else self._evaluating.discard)(worker)

    @contextmanager
    def waiting(self, state: WaitState, downstream: str = NO_DOWNSTREAM) -> Iterator[Waiting]:
        """Measure a wait of a task of the node while the block runs."""
        now = self._now()
        wait = Waiting(state, downstream, now, now)
        with self._lock:
            self._waits.append(wait)
        try:
            yield wait
        finally:
            now = self._now() - wait.worked
            with self._lock:
                self._waits.remove(wait)
                self._add(wait, now)
            self._record(state, max(0.0, now - wait.began))

    @property
    def is_evaluating(self) -> bool:
        """Whether Spark evaluates something for the node, or did when its task failed."""
        return bool(self._evaluating) or self._evaluates_elsewhere()

    def ask_when_evaluating(self, evaluates_elsewhere: Callable[[], bool]) -> None:
        """Ask ``evaluates_elsewhere``, too: evaluations that follow each other in the JVM are not seen here."""
        self._evaluates_elsewhere = evaluates_elsewhere

    def add_work(self, seconds: float) -> None:
        """Add work that Spark has done for the node."""
        with self._lock:
            self._work += seconds

    def delegate(self, seconds: float) -> None:
        """Count as a wait the time in which a task of the node waited while Spark worked for another node."""
        with self._lock:
            self._delegated += seconds

    def count_batch(self, rows: int) -> None:
        """Count a batch that the node has produced or written."""
        self.last_rows = rows
        if rows == 0:
            self._metrics.count("node_empty_batch", 1, self._tags)
        if rows == 0 or self._empty_batches:
            self._empty_batches = 0 if rows else self._empty_batches + 1
            self._metrics.gauge("node_empty_streak", self._empty_batches, self._tags)

    def report_queue(self, batches: int) -> None:
        """Record how many batches wait in front of all instances of the node."""
        self._metrics.gauge("node_inflight_buffered", batches, self._tags)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def spent(self) -> TimeSpent:
        """Return the time so far, with that of waits that have not ended."""
        now = self._now()
        with self._lock:
            for wait in self._waits:
                self._add(wait, now)
            alive = self._ended + sum(now - began for began in self._alive.values())
            starved = self._seconds.get(("starved", NO_DOWNSTREAM), 0.0)
            blocked = {name: seconds for (state, name), seconds in self._seconds.items() if state == "blocked"}
            work, delegated = self._work, self._delegated
        if not alive:
            return TimeSpent(0.0, work, 0.0, blocked)
        busy = max(0.0, alive - starved - sum(blocked.values()) - delegated)
        return TimeSpent(alive, busy, starved, blocked)

    def _add(self, wait: Waiting, now: float) -> None:
        key = wait.state, wait.downstream
        seconds = self._seconds[key] = self._seconds.get(key, 0.0) + max(0.0, now - wait.since)
        wait.since = now
        new = int(seconds * 1000) - self._counted.get(key, 0)
        self._counted[key] = self._counted.get(key, 0) + new
        tags = {**self._tags, "state": wait.state, "downstream_id": wait.downstream}
        self._metrics.count("node_wait", new, tags)

    def _record(self, state: WaitState, seconds: float) -> None:
        if state == "starved":
            self._metrics.latency("node_idle_wait", seconds, self._tags)
            return
        self._metrics.latency("node_backpressure_wait", seconds, self._tags)
        if seconds >= self._event_seconds:
            self._metrics.count("node_backpressure_events", 1, self._tags)


class Worker:
    """A task that works for a node: a flow or a lane."""

    def __init__(self, activity: Activity) -> None:
        self.activity = activity

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Count the time while the block runs. Its steps may run on several threads."""
        self.activity.began(self)
        try:
            yield
        finally:
            self.activity.ended(self)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Let the current thread work for the node while the block runs."""
        _here.worker = self
        try:
            yield
        finally:
            _here.worker = None


@dataclass(frozen=True)
class Edge:
    """Where rows pass from one node to another."""

    activity: Activity
    downstream: str


class _Here(threading.local):
    """What the current thread does."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self.edges: list[Edge] = []
        self.evaluations = 0


_here = _Here()


def work_in_spark(activity: Activity, seconds: float) -> None:
    """Record that Spark has worked for a node, and that the current thread has waited for it."""
    activity.add_work(seconds)
    if _here.worker is not None:
        _here.worker.activity.delegate(seconds)


@contextmanager
def evaluating() -> Iterator[None]:
    """Mark the current worker as one for which Spark evaluates something while the block runs. If the block raises, the
    mark stays until the next one has ended: when the JVM dies, its evaluations fail before anybody can look at them."""
    worker = _here.worker
    if worker is None:
        yield
        return
    _here.evaluations += 1
    worker.activity.mark_evaluating(worker, True)
    try:
        yield
    finally:
        _here.evaluations -= 1
    if not _here.evaluations:
        worker.activity.mark_evaluating(worker, False)


@contextmanager
def passing(edge: Edge) -> Iterator[None]:
    """Let the current thread pass rows along ``edge`` while the block runs. Blocks may be nested: rows of a node that
    Spark runs are passed on by the thread of its source."""
    _here.edges.append(edge)
    try:
        yield
    finally:
        _here.edges.pop()


@contextmanager
def blocked_by_queue() -> Iterator[None]:
    """Measure the wait of the current thread for a full queue while the block runs: all nodes on its path are
    blocked."""
    with ExitStack() as waits:
        for edge in _here.edges:
            waits.enter_context(edge.activity.waiting("blocked", edge.downstream))
        yield
