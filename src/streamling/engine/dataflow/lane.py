"""A lane: one operator instance, one task, one bounded queue. Markers travel in line with the data.

A lane has one or more feeders (flows, or transform lanes above it). It passes the marker of an epoch on only when every
feeder has sent it, so everything before it has been processed. A full queue blocks the feeder: this is the
backpressure.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from streamling.clock import Clock
from streamling.engine.dataflow.alignment import Arrival, MarkerAlignment
from streamling.engine.dataflow.dead_letters import DeadLetterOutput
from streamling.engine.dataflow.rebatch import Rebatcher
from streamling.errors import NodeLabel, StreamlingError
from streamling.observe.activity import Activity, blocked_by_queue
from streamling.observe.epochs import MarkerLog
from streamling.tasks import Steps, Task, wait_elsewhere

#: Batches that may wait in front of a lane. One being written, one ready and one being read are enough to overlap
#: reading with writing; more would only use memory.
QUEUE_LENGTH = 2

#: Seconds between two checks whether the lane has failed while a feeder waits for a full queue.
_POLL = 0.2


class Work(Protocol):
    """What a lane does with its batches and markers. All methods are called by the lane's task."""

    def open(self, wake: Callable[[], None]) -> None:
        """Open the operator. ``wake`` may be called from any thread and causes a call of `proceed`."""

    def process(self, batch: pa.RecordBatch) -> None: ...

    def proceed(self) -> None:
        """Pass on what has become ready in the meantime; called after each item of the queue."""

    def alignment_started(self, epoch: int) -> None:
        """React when the first of several feeders has sent its marker of ``epoch``."""

    def mark(self, epoch: int) -> None:
        """Flush, pass on and acknowledge ``epoch``, of which everything has been processed."""

    def finalized(self, epoch: int) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class _Mark:
    feeder: str
    epoch: int


class _End:
    pass


class Lane:
    """Runs one `Work` as a task."""

    def __init__(
        self,
        node: NodeLabel,
        work: Work,
        *,
        rebatcher: Rebatcher,
        clock: Clock,
        activity: Activity,
        on_failure: Callable[[StreamlingError], None],
        markers: MarkerLog,
        dead_letters: DeadLetterOutput | None = None,
        queue_length: int = QUEUE_LENGTH,
        own_thread: bool = True,
    ) -> None:
        """``dead_letters`` takes the rows that the operator rejects, before the marker of their epoch. With
        ``own_thread``, all methods of the operator are called on the same thread."""
        self.node = node
        self._work = work
        self._alignment = MarkerAlignment()
        self._rebatcher = rebatcher
        self._clock = clock
        self._activity = activity
        self._on_failure = on_failure
        self._markers = markers
        self._queue: queue.Queue[pa.RecordBatch | _Mark | _End] = queue.Queue(queue_length)
        self._dead_letters = dead_letters
        self._finalized: int | None = None
        self._failed = threading.Event()
        self._worker = activity.worker()
        self._task = Task(self._run, f"lane {node}", clock, during=self._worker.step, own_thread=own_thread)

    def add_feeder(self, name: str) -> None:
        self._alignment.add_feeder(name)

    def start(self) -> None:
        self._task.start()

    # ── called by feeders ────────────────────────────────────────────────────────────────────────────────────

    def put(self, batch: pa.RecordBatch) -> None:
        """Add rows to the queue; blocks while the lane is behind."""
        if batch.num_rows:
            self._put(batch)

    def mark(self, feeder: str, epoch: int) -> None:
        """Report that ``feeder`` has sent everything of ``epoch``."""
        self._put(_Mark(feeder, epoch))

    def end(self) -> None:
        """End the input: the queue is processed, then the operator is closed."""
        self._put(_End())

    def notify_finalized(self, epoch: int) -> None:
        """Notify the operator that ``epoch`` is complete, between two items."""
        self._finalized = epoch
        self._task.wake()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; True when the lane has ended."""
        return self._task.join(timeout)

    @property
    def holds_rows(self) -> bool:
        """Whether rows wait for others in front of the operator."""
        return self._rebatcher.holds_rows

    @property
    def queued(self) -> int:
        """Batches and markers that wait."""
        return self._queue.qsize()

    @property
    def queue_length(self) -> int:
        return self._queue.maxsize

    def _put(self, item: pa.RecordBatch | _Mark | _End) -> None:
        if not self._failed.is_set():
            try:
                self._queue.put_nowait(item)
            except queue.Full:
                with blocked_by_queue():
                    self._wait_and_put(item)
            self._task.wake()

    def _wait_and_put(self, item: pa.RecordBatch | _Mark | _End) -> None:
        wait_elsewhere()
        while not self._failed.is_set():
            try:
                self._queue.put(item, timeout=_POLL)
                return
            except queue.Full:
                continue

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> Steps:
        opened = False
        try:
            self._work.open(self._task.wake)
            opened = True
            with self._worker.alive():
                yield from self._loop()
        except (Exception, SystemExit) as error:
            self._failed.set()
            self._on_failure(StreamlingError.wrap(error, "").of_node(self.node))
        if opened:
            self._close()

    def _close(self) -> None:
        try:
            self._work.close()
        except (Exception, SystemExit) as error:
            if not self._failed.is_set():
                self._on_failure(StreamlingError.wrap(error, "closing").of_node(self.node))

    def _loop(self) -> Steps:
        while True:
            item = yield from self._next()
            if isinstance(item, _End):
                self._drain()
                self._proceed()
                self._forward_finalized()
                return
            if isinstance(item, pa.RecordBatch):
                self._process(self._rebatcher.add(item, self._clock.now()))
            elif isinstance(item, _Mark):
                self._on_mark(item)
            self._proceed()
            self._forward_finalized()

    def _next(self) -> Generator[float | None, None, pa.RecordBatch | _Mark | _End]:
        """Wait for the next item and return it; rows that have waited long enough are processed first."""
        while True:
            due = self._rebatcher.due(self._clock.now())
            if due == 0.0:
                self._drain()
                self._proceed()
                due = None
            try:
                return self._queue.get_nowait()
            except queue.Empty:
                pass
            self._proceed()
            self._forward_finalized()
            with self._activity.waiting("starved"):
                yield due

    def _drain(self) -> None:
        self._process(self._rebatcher.drain())

    def _process(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._work.process(batch)
            self._send_rejected()

    def _proceed(self) -> None:
        self._work.proceed()
        self._send_rejected()

    def _send_rejected(self) -> None:
        if self._dead_letters is not None:
            self._dead_letters.send()

    def _on_mark(self, mark: _Mark) -> None:
        match self._alignment.arrive(mark.feeder, mark.epoch):
            case Arrival.LAST:
                self._markers.arrived(mark.epoch)
                self._drain()
                self._work.mark(mark.epoch)
                if self._dead_letters is not None:
                    self._dead_letters.mark(mark.epoch)
                self._markers.passed(mark.epoch)
            case Arrival.FIRST:
                self._work.alignment_started(mark.epoch)

    def _forward_finalized(self) -> None:
        epoch, self._finalized = self._finalized, None
        if epoch is not None:
            self._work.finalized(epoch)
