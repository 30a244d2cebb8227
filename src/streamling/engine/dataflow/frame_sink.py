"""A sink that Spark writes, at the end of a segment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from streamling.engine.dataflow.alignment import Arrival, MarkerAlignment, Port
from streamling.engine.dataflow.events import Events
from streamling.engine.dataflow.limit import RowLimit
from streamling.engine.dataflow.meter import NodeMeter
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.engine.dataflow.rows import Rows
from streamling.errors import StreamlingError
from streamling.observe.activity import work_in_spark
from streamling.pipeline.error_locations import node_error, node_errors
from streamling.pipeline.model import Node
from streamling.plugins.sinks import FrameSink
from streamling.plugins.streams import LocalRows
from streamling.spark.row_counters import REPORT_WAIT, count_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: seconds to wait for the count of rows that have been written, if no limit depends on it
_COUNT_WAIT = 2.0


class FrameSinkNode:
    """A sink that Spark writes, on the producer's thread."""

    wants_frame = True

    def __init__(self, node: Node, operator: FrameSink[Any], limit: RowLimit, meter: NodeMeter, events: Events) -> None:
        self.node = node
        self.operator = operator
        self._meter = meter
        self._limit = limit
        self._events = events
        self._alignment = MarkerAlignment()
        self._lock = threading.Lock()  # flows that share the sink take turns
        #: False once Spark has not reported a count: the sink does not compute the frame that it receives
        self._countable = True
        #: rows passed to the sink
        self._taken = 0
        operator.context.deliveries.on_delivery(meter.count_delivery)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def reports_count(self) -> bool:
        return self.operator.counts_rows

    def open(self) -> None:
        with node_errors(self.node):
            self.operator.open()

    def close(self) -> None:
        with node_errors(self.node, "closing"):
            self.operator.close()

    def accept(self, upstream: str, rows: Rows) -> None:
        began = time.monotonic()
        with self._lock:
            count = self._take(rows)
        elapsed = self._meter.activity.last_seconds = time.monotonic() - began
        if rows.on_elapsed is None:
            work_in_spark(self._meter.activity, elapsed)
        else:  # Spark has worked for the SQL above at the same time, in one plan
            self._meter.activity.add_work(elapsed)
        if self._meter.measures is not None:
            self._meter.measures.collect()
        if count is None:
            rows.on_count(self._count)
        else:
            self._count(count)
            rows.report_count(count)

    def _count(self, rows: int) -> None:
        """Count ``rows`` rows that have been written and are durable."""
        self._meter.activity.last_rows = rows
        self._meter.count_rows_in(rows)
        with self._lock:
            self._taken += rows
            self.operator.context.deliveries.settle(self._taken)
        self._limit.take(rows)

    def prepare(self, rows: Rows) -> Rows:
        """Return the sink's own part of the plan."""
        frame = self._measured(rows)
        return rows.with_frame(rows.run(lambda: self._with_error_context(lambda: self.operator.prepare(frame))))

    def _measured(self, rows: Rows) -> DataFrame:
        """Return the rows for Spark, with the measures of the sink in their plan."""
        measures, frame = self._meter.measures, rows.frame()
        return frame if measures is None or rows.in_python else measures.observe(frame)

    @property
    def measures(self) -> RowMeasures | None:
        return self._meter.measures

    def prepare_local(self, rows: Rows) -> Rows | None:
        """Return the sink's own part of the plan for small batches, if it writes them itself."""
        lineage = ((self.node, self.operator), *rows.lineage)
        taken = self._measured(rows)
        frame = rows.run(lambda: self._with_error_context(lambda: self.operator.prepare_local(taken)))
        return None if frame is None else Rows(rows.session, frame=frame, lineage=lineage, on_elapsed=rows.on_elapsed)

    def local_writer(self, session: SparkSession) -> Any:
        """Return the Java object that writes the rows of `prepare_local`."""
        return self.operator.local_writer(session)

    @property
    def is_limited(self) -> bool:
        """Whether the pipeline ends after a number of its rows."""
        return self._limit.is_limited

    def written_local(self, rows: int, sent: int, seconds: float) -> None:
        """Count rows that the `local_writer` has taken in this time."""
        self.operator.written_local(rows, sent, seconds)
        work_in_spark(self._meter.activity, seconds)
        self._count(rows)

    def accept_local(self, rows: LocalRows) -> None:
        """Write rows with which the `local_writer` has failed."""
        began = time.monotonic()
        with self._lock, node_errors(self.node, "writing"):
            self.operator.write_local(rows)
        work_in_spark(self._meter.activity, time.monotonic() - began)
        self._count(rows.count)

    def _take(self, rows: Rows) -> int | None:
        """Write ``rows``. Returns their number; None when they report it themselves."""
        if rows.in_python:
            with node_errors(self.node):
                taken = self.operator.write_arrow(rows.batches())
            if not taken:
                self._write(self.prepare(rows))
            if self._meter.measures is not None:
                self._meter.measures.record_batches(rows.batches())
            return rows.count
        if rows.is_counted_in_spark and not self.operator.counts_rows:
            self._write(self.prepare(rows))
            return None
        return self._write_counted(self.prepare(rows))

    def _write_counted(self, rows: Rows) -> int | None:
        """Write ``rows`` and count them: the sink does, or Spark."""
        if self.operator.counts_rows or not self._countable:
            return self._write(rows)
        counter = count_rows(rows.frame())
        self._write(rows.with_frame(counter.frame))
        count = counter.rows(REPORT_WAIT if self._limit.is_limited else _COUNT_WAIT)
        if count is None:
            self._countable = self._limit.is_limited
        return count

    def _write(self, rows: Rows) -> int | None:
        write = lambda: self._with_error_context(lambda: self.operator.write_frame(rows.frame()))  # noqa: E731
        return rows.job(write, self.node, "writing")

    def _with_error_context(self, call: Callable[[], T]) -> T:
        """Name the sink in errors that it raises itself; other exceptions are about the plan above it."""
        try:
            return call()
        except StreamlingError as error:
            node_error(error, self.node)
            raise

    def ports(self) -> Sequence[Port]:
        return (self,)

    def add_feeder(self, name: str) -> None:
        self._alignment.add_feeder(name)

    def mark(self, feeder: str, epoch: int) -> None:
        """Acknowledge once all feeders have sent their marker: every write before this call is already durable."""
        if self._alignment.arrive(feeder, epoch) is Arrival.LAST:
            self._events.on_ack(self.node.name, epoch, {})

    def notify_finalized(self, epoch: int) -> None:
        with self._lock:
            self.operator.finalized(epoch)
