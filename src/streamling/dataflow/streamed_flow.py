"""A flow that runs as a Spark Structured Streaming query.

A source may have rows that precede its stream (`StreamedSource.backfill`): the flow asks for them first, one batch
after another, and starts the query when there are no more.

A query that cannot continue (a new schema in the topic, brokers that are unavailable, partitions that another instance
takes over) is replaced by another one; the rest of the pipeline is not affected.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.dataflow.flow import GATE_CHECK, Flow
from streamling.dataflow.frame_sink import FrameSinkStep
from streamling.dataflow.meter import NodeMeter
from streamling.dataflow.network import FrameStep, Outlet
from streamling.dataflow.pulling import PullingFlow
from streamling.dataflow.query_counts import QueryCounts
from streamling.dataflow.rows import Rows
from streamling.errors import StreamlingError
from streamling.pipeline.model import Node
from streamling.plugins.operators import Position, PositionedStream, SourceBatch, StreamedSource, StreamRestart
from streamling.retry import backoff_delay
from streamling.spark.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streamling.dataflow.dead_letters import DeadLetterOutput

log = logging.getLogger(__name__)

#: Seconds between two checks whether a streaming query is still running.
_QUERY_CHECK = 1.0
#: Seconds between two log lines about a source that is unavailable.
_LOG_INTERVAL = 30.0


class StreamedFlow(PullingFlow[StreamedSource[Any]]):
    """Runs as a Structured Streaming query; Spark calls it for every micro-batch.

    SQL steps directly below the source, and the row preparation of a sink that Spark writes, become part of the
    streaming plan: they are parsed and analysed once per query, not once per batch. Spark's checkpoint folder is
    scratch space: it only shows at which offsets a batch ends.
    """

    def __init__(
        self,
        name: str,
        node: Node,
        source: StreamedSource[Any],
        schema: pa.Schema,
        session: SparkSession,
        outlet: Outlet,
        dead_letters: DeadLetterOutput | None = None,
        *,
        stream_outlet: Outlet,
        meter: NodeMeter | None = None,
        **callbacks: Any,
    ):
        """``stream_outlet`` takes the rows of the stream, and rejects some of them if there is a dead-letter sink;
        ``meter`` is set if rows are to be counted inside Spark's plan."""
        super().__init__(name, node, source, schema, session, outlet, dead_letters, **callbacks)
        self._stream_outlet = stream_outlet
        self._meter = meter
        #: held by Spark's thread during a micro-batch; another thread that acquires it is between batches
        self._boundary = threading.Lock()
        #: the query is about to be stopped
        self._refusing = False
        #: why the running query has to be replaced by another one
        self._restart_cause: StreamRestart | None = None
        #: the source has requested another query; no batch starts until it has been created
        self._restarting = threading.Event()
        #: failed queries since the last batch, and when the last one was logged
        self._attempts = 0
        self._last_logged = 0.0

    def restart(self, timeout: float) -> bool:
        self._restarting.set()
        self._wake.set()
        if not self._boundary.acquire(timeout=timeout):
            return False
        self._boundary.release()
        return True

    def _flow(self) -> None:
        restored = self._position
        if self._pull(lambda position: self._source.backfill(self._session, position)):
            if self._source.bounded:
                self._end(restored)
            else:
                self._run_queries()
        while not self._closed.is_set():
            self._idle(None)

    def _deliver(self, batch: SourceBatch) -> None:
        with self._boundary:
            super()._deliver(batch)

    def _run_queries(self) -> None:
        """Run one query after another until the flow is closed."""
        while not self._closed.is_set():
            again = self._stream()
            if again is not None:
                self._wait_for_source(again)
            while self._paused.is_set() and not self._closed.is_set():
                self._idle(None)

    def _stream(self) -> StreamlingError | None:
        """Run one query to its end. Returns what ended it; None if the flow was closed or the source requested another
        one."""
        folder = Scratch()
        self._restart_cause, self._refusing = None, False
        self._restarting.clear()  # before the source is called: a change from here on sets it again
        query = None
        try:
            query = self._query(folder.path / "query")
            while not self._closed.is_set() and not self._restarting.is_set() and self._restart_cause is None:
                if query is not None and not query.isActive:
                    break
                if self._request_checkpoint is not None and not self._caught_up.is_set():
                    self._notice_caught_up(self._call_source(self._source.caught_up))
                self._idle(_QUERY_CHECK)
            failure = query.exception() if query is not None else None
            if failure is not None and self._restart_cause is None and not self._closed.is_set():
                raise Rows(self._session, lineage=((self.node, self._source),)).translate_error(failure)
            return self._restart_cause
        except StreamRestart as again:
            return again
        except StreamlingError as error:
            if query is None and error.retriable:  # the source cannot start yet
                return error
            raise
        finally:
            if query is not None:
                with self._boundary:  # the current batch is delivered, no other one starts
                    self._refusing = True
                # outside the lock: the stop waits for Spark's thread, which may be waiting for the lock
                query.stop()
            folder.remove()

    def _wait_for_source(self, again: StreamlingError) -> None:
        """Wait for a source that is unavailable; markers are still sent."""
        self._attempts = self._attempts + 1 if again.retriable else 0
        if self._attempts:
            pause = backoff_delay(self._attempts, random.random())
            if self._attempts == 1 or time.monotonic() - self._last_logged > _LOG_INTERVAL:
                self._last_logged = time.monotonic()
                log.warning("%s; attempt %d, retrying in %.1f s", again, self._attempts, pause)
            self._wait(pause)

    def _handle_requests(self) -> None:
        if self._requested is not None or self._committed is not None:
            with self._boundary:
                super()._handle_requests()

    def _query(self, scratch: Path) -> StreamingQuery | None:
        _activate(self._session)
        stream = self._call_source(lambda: self._source.stream(self._session, self._position))
        if stream is None:
            return None
        if isinstance(stream, PositionedStream):
            self._position, stream = stream.position, stream.frame
        frame = self._with_operation(stream)
        counts = QueryCounts()
        source = Rows(self._session, frame=frame, lineage=((self.node, self._source),))
        rows, deliver = self._fused(source, counts)

        def on_batch(frame: DataFrame, number: int) -> None:
            batch = Rows(
                frame.sparkSession, frame=frame, lineage=rows.lineage, producer=self.name, on_elapsed=rows.on_elapsed
            )
            self._on_batch(lambda: deliver(batch), counts, scratch, number)

        writer = rows.frame().writeStream.foreachBatch(on_batch).option("checkpointLocation", scratch.as_uri())
        query = writer.start()
        counts.started(query)
        return query

    def _fused(self, rows: Rows, counts: QueryCounts) -> tuple[Rows, Callable[[Rows], None]]:
        """The plan with all SQL steps, and the sink that Spark writes, that are the only consumers of their upstreams;
        and the function that takes its batches."""
        outlet, upstream, meter = self._stream_outlet, self.node.name, self._meter
        for step in self._chain():
            if meter is not None:
                rows, meter = _counted(rows, counts, meter.count_rows_out, step.meter.count_rows_in), step.meter
            rows, outlet, upstream = step.transform(upstream, rows), step.outlet, step.node.name
        if isinstance(sink := outlet.only_step, FrameSinkStep):
            # the rows that the sink counts are the output of its upstream
            return sink.prepare(rows), lambda batch: _measured(meter, sink.accept_prepared(batch))
        return rows, outlet.emit

    def _chain(self) -> list[FrameStep]:
        """The SQL steps that may be part of the streaming plan."""
        steps: list[FrameStep] = []
        outlet = self._stream_outlet
        while isinstance(step := outlet.only_step, FrameStep) and not step.per_batch:
            steps.append(step)
            outlet = step.outlet
        # a side output makes Spark run the plan twice, and counters inside it would count twice
        return [] if outlet.side_outputs and self._meter is not None else steps

    @property
    def _declines(self) -> bool:
        """Whether the running query may not deliver any more batches."""
        return self._refusing or self._paused.is_set() or self._restarting.is_set() or self._restart_cause is not None

    def _on_batch(self, deliver: Callable[[], None], counts: QueryCounts, scratch: Path, number: int) -> None:
        while self._held_back and not self._declines:
            time.sleep(GATE_CHECK)  # outside of the lock: markers are still sent
        with self._boundary:
            if self._declines:
                return  # nothing of this batch is delivered and the position stays: it will be replayed
            try:
                deliver()
                counts.report()
                self._move_to(self._source.position_after(_end_offset(scratch, number), self._position))
                self._log_recovery()
                Flow._handle_requests(self)
                if self._request_checkpoint is not None:
                    self._wake.set()  # the source may have caught up
            except StreamRestart as again:
                self._restart_cause = again
                self._wake.set()
            except (Exception, SystemExit) as error:
                self._fail(error)

    def _move_to(self, position: Position) -> None:
        rows = self._source.rows_between(self._position, position)
        if rows is not None:
            self._delivered(rows)
        self._position = position

    def _log_recovery(self) -> None:
        if self._attempts:
            log.info("%s: recovered after %d failed attempts", self.node, self._attempts)
            self._attempts = 0


def _counted(rows: Rows, counts: QueryCounts, *report: Callable[[int], None]) -> Rows:
    return Rows(
        rows.session, frame=counts.observe(rows.frame(), *report), lineage=rows.lineage, on_elapsed=rows.on_elapsed
    )


def _measured(meter: NodeMeter | None, rows: int) -> None:
    if meter is not None:
        meter.count_rows_out(rows)


def _activate(session: SparkSession) -> None:
    """Make Spark use the settings of ``session`` on this thread: `writeStream` ignores those of the DataFrame."""
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def _end_offset(scratch: Path, number: int) -> str:
    """Spark's end offset of a micro-batch: line 1 of its log is the version, 2 the metadata, 3 the only source."""
    return (scratch / "offsets" / str(number)).read_text().splitlines()[2]
