"""A flow that waits for the rows of a stream.

A source may have rows that precede its stream (`StreamedSource.backfill`): the flow asks for them first, one batch
after another, and starts the stream when there are no more.

A stream that cannot continue (a new schema in the topic, brokers that are unavailable, partitions that another instance
takes over) is replaced by another one; the rest of the pipeline is not affected.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from streamling.engine.dataflow.driver_evaluator import DriverEvaluator, compile_segment
from streamling.engine.dataflow.events import Events
from streamling.engine.dataflow.flow import GATE_CHECK, Flow, SourceInstance, may_hold_rows
from streamling.engine.dataflow.realtime import Delay, find_delays
from streamling.engine.dataflow.rows import Rows
from streamling.engine.dataflow.segment import Segment
from streamling.errors import StreamlingError
from streamling.observe.activity import Activity, evaluating
from streamling.pipeline.error_locations import node_error
from streamling.plugins.sources import SourceBatch, Wait
from streamling.plugins.streams import LocalStep, NeedsJob, Stream, StreamBatch, StreamedSource, StreamRestart
from streamling.retry import backoff_delay
from streamling.tasks import Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: seconds between two checks whether this flow has caught up, while other flows wait for that
_CAUGHT_UP_CHECK = 1.0
#: seconds for which small batches follow each other in the JVM before they are counted
_REPORT_INTERVAL = 0.25
#: Seconds between two log lines about a source that is unavailable.
_LOG_INTERVAL = 30.0


class StreamedFlow(Flow[StreamedSource[Any]]):
    """Delivers the batches of one stream after another.

    The driver evaluates small batches as far as it can (`DriverEvaluator`). All others are Spark jobs, as those of a
    `PolledFlow`.
    """

    def __init__(
        self,
        source: SourceInstance[StreamedSource[Any]],
        session: SparkSession,
        segment: Segment,
        events: Events,
        activity: Activity,
    ) -> None:
        super().__init__(source, session, segment, events, activity)
        #: held while a batch is delivered; another thread that acquires it is between batches
        self._boundary = threading.Lock()
        #: the source has requested another stream; no batch is delivered until it has been created
        self._restarting = threading.Event()
        #: the stream that may be waiting for rows
        self._running: Stream | None = None
        #: failed streams since the last batch, and when the last one was logged
        self._attempts = 0
        self._last_logged = 0.0

    @property
    def shared_with(self) -> int:
        stream = self._running
        return 0 if stream is None else stream.shared_with

    def restart(self, timeout: float) -> bool:
        self._restarting.set()
        self._wake_up()
        if not self._boundary.acquire(timeout=timeout):
            return False
        self._boundary.release()
        return True

    def _wake_up(self) -> None:
        if (stream := self._running) is not None:
            stream.wake()
        super()._wake_up()

    def _flow(self) -> Steps:
        restored = self._position
        if (yield from self._poll(lambda position: self.source.backfill(self._session, position))):
            if self.source.bounded:
                self._end(restored)
            else:
                yield from self._run_streams()
        while not self._closed.is_set():
            yield from self._idle(None)

    def _deliver(self, batch: SourceBatch) -> None:
        with self._boundary:
            super()._deliver(batch)

    # ── streams ──────────────────────────────────────────────────────────────────────────────────────────────

    def _run_streams(self) -> Steps:
        """Read one stream after another until the flow stops reading."""
        while not self._stopping.is_set():
            again = yield from self._run_stream()
            if again is not None:
                yield from self._wait_for_source(again)

    def _run_stream(self) -> Generator[float | None, None, StreamlingError | None]:
        """Read one stream to its end. Returns what ended it; None if the flow stops reading or the source requested
        another one."""
        self._restarting.clear()  # before the source is called: a change from here on sets it again
        stream = None
        try:
            stream = self._call_source(lambda: self.source.stream(self._session, self._position))
            if stream is None:
                yield from self._wait_for_restart()
            else:
                yield from self._read(stream)
            return None
        except StreamRestart as again:
            return again
        except StreamlingError as error:
            if stream is None and error.retriable:  # the source cannot start yet
                return error
            raise
        finally:
            self._running = None
            if stream is not None:
                stream.close()

    def _wait_for_restart(self) -> Steps:
        """Wait while there is nothing to read, which may mean that everything has been read."""
        while not self._declines:
            self._check_caught_up()
            yield from self._idle(_CAUGHT_UP_CHECK if self._is_watched else None)

    def _read(self, stream: Stream) -> Steps:
        self._move(stream.position)
        small = _SmallBatches(self._compile)
        stream.start(small, self._task.wake)
        self._activity.ask_when_evaluating(stream.is_evaluating)
        self._running = stream  # requests from here on wake it; those before are handled first
        while not self._declines:
            self._handle_requests()
            if self._held_back:
                yield from self._idle(GATE_CHECK)
            else:
                yield from self._deliver_next(stream, small)
            self._check_caught_up()

    def _deliver_next(self, stream: Stream, small: _SmallBatches) -> Steps:
        """Deliver the next batch, and those that follow it before anything else can be done."""
        with self._boundary:
            continues = not self._declines
            while continues:
                with self._activity.waiting("starved") as wait:
                    batch = yield from self._next_batch(stream)
                    wait.worked = 0.0 if batch is None else batch.busy
                continues = batch is not None and batch.continues
                if batch is not None:
                    self._deliver_streamed(batch, small)

    def _deliver_streamed(self, batch: StreamBatch, small: _SmallBatches) -> None:
        if batch.results is not None:
            small.deliver(batch)
        elif may_hold_rows(batch):
            self._segment.run_stream(self._rows(batch))
        self._task.cpu_seconds += batch.cpu_seconds
        self._move(batch.position)
        self._delivered(batch.count or 0)
        self._log_recovery()

    def _next_batch(self, stream: Stream) -> Generator[float | None, None, StreamBatch | None]:
        """Wait for the next batch; None if the flow may have something else to do."""
        while isinstance(step := self._call_source(stream.next), Wait):
            seconds = min(step.seconds, _CAUGHT_UP_CHECK) if self._is_watched else step.seconds
            yield None if math.isinf(seconds) else seconds
            self._handle_commit()  # no reason to stop small batches
            self._check_caught_up()
        return step

    def _compile(self) -> DriverEvaluator | None:
        """Return what evaluates the small batches of a stream; None: Spark jobs."""
        with evaluating():  # Spark's optimizer computes constants
            found = self._find_evaluator()
        if self.source.is_realtime:  # checked before the start, but the source may have got new columns
            for delay in find_delays(self.source, self.node, found):
                log.warning("%s", node_error(delay.error(self.name), delay.node))
        return None if isinstance(found, NeedsJob) else found

    def find_delays(self) -> list[Delay]:
        if not self.source.is_realtime:
            return []
        return list(find_delays(self.source, self.node, self._find_evaluator()))

    def _find_evaluator(self) -> DriverEvaluator | NeedsJob:
        frame = self._call_source(lambda: self.source.template(self._session))
        if frame is None:
            return NeedsJob("it has no plan for the driver")
        lineage = ((self.node, self.source),)
        rows = Rows(self._session, frame=self._with_operation(frame), lineage=lineage, producer=self.name)
        return compile_segment(self._segment, self.source, rows)

    @property
    def _declines(self) -> bool:
        """Whether the running stream may not deliver any more batches."""
        return self._stopping.is_set() or self._restarting.is_set()

    @property
    def _is_watched(self) -> bool:
        return self._request_checkpoint is not None and not self._caught_up.is_set()

    def _check_caught_up(self) -> None:
        if self._is_watched:
            self._notice_caught_up(self._call_source(self.source.caught_up))

    # ── a source that is unavailable ─────────────────────────────────────────────────────────────────────────

    def _wait_for_source(self, again: StreamlingError) -> Steps:
        """Wait for a source that is unavailable; markers are still sent."""
        self._attempts = self._attempts + 1 if again.retriable else 0
        if self._attempts:
            delay = backoff_delay(self._attempts, random.random())
            if self._attempts == 1 or time.monotonic() - self._last_logged > _LOG_INTERVAL:
                self._last_logged = time.monotonic()
                log.warning("%s; attempt %d, retrying in %.1f s", again, self._attempts, delay)
            yield from self._wait(delay)

    def _log_recovery(self) -> None:
        if self._attempts:
            log.info("%s: recovered after %d failed attempts", self.node, self._attempts)
            self._attempts = 0


class _SmallBatches:
    """What the driver does with the small batches of one stream."""

    def __init__(self, compile: Callable[[], DriverEvaluator | None]) -> None:
        self._evaluator = cache(compile)

    def steps(self) -> Sequence[LocalStep] | None:
        evaluator = self._evaluator()
        return None if evaluator is None else evaluator.steps

    @property
    def interval(self) -> float:
        evaluator = self._evaluator()
        return 0.0 if evaluator is None or evaluator.delivers_each else _REPORT_INTERVAL

    def deliver(self, batch: StreamBatch) -> None:
        evaluator = self._evaluator()
        assert evaluator is not None
        evaluator.deliver(batch)
