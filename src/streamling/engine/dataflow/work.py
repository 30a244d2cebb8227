"""The work of lanes: write to a sink, or transform rows and pass them on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from streamling.engine.dataflow.events import Events
from streamling.engine.dataflow.limit import RowLimit
from streamling.engine.dataflow.meter import NodeMeter
from streamling.engine.dataflow.ordered_results import OrderedResults
from streamling.engine.dataflow.rebatch import Rebatcher
from streamling.engine.dataflow.rows import Rows, as_declared
from streamling.engine.dataflow.schema_changes import InputSchemaTracker, report_dropped_columns
from streamling.engine.dataflow.segment import Segment
from streamling.errors import StreamlingError
from streamling.plugins.rejects import reject_failing_rows
from streamling.plugins.sinks import Sink
from streamling.plugins.transforms import AsyncCalls, Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SinkWork:
    """Writes the batches of a lane to a sink."""

    def __init__(
        self, lane: str, sink: Sink[Any], limit: RowLimit, meter: NodeMeter, events: Events, *, rejects: bool
    ) -> None:
        """``rejects``: rows with which the sink fails go to a dead-letter sink."""
        self._lane = lane
        self._sink = sink
        self._write = partial(_write_or_reject, sink) if rejects else sink.write
        self._limit = limit
        self._events = events
        self._meter = meter
        self._refused = False
        #: rows passed to the sink
        self._taken = 0
        sink.context.deliveries.on_delivery(meter.count_delivery)

    def open(self, wake: Callable[[], None]) -> None:
        self._sink.open()

    def process(self, batch: pa.RecordBatch) -> None:
        allowed = self._limit.take(batch.num_rows)
        self._refused |= allowed < batch.num_rows
        if allowed:
            rows = batch.slice(0, allowed)
            began = time.monotonic()
            self._write(rows)
            self._taken += allowed
            activity = self._meter.activity
            activity.last_rows, activity.last_seconds = allowed, time.monotonic() - began
            if self._meter.measures is not None:
                self._meter.measures.record_batches([rows])
        if self._refused:  # the pipeline ends here, and no marker will make the last rows durable
            self._sink.flush()
            self._settle(self._taken)

    def proceed(self) -> None:
        """Do nothing: a sink has no output."""

    def alignment_started(self, epoch: int) -> None:
        self._sink.on_first_marker(epoch)

    def mark(self, epoch: int) -> None:
        taken = self._taken

        def acknowledge(entries: Mapping[str, Any] = MappingProxyType({}), /) -> None:
            self._settle(taken)
            if not self._refused:  # a position after rows that were not written must never be stored
                self._events.on_ack(self._lane, epoch, entries)

        self._sink.marker(epoch, acknowledge)

    def _settle(self, taken: int) -> None:
        """Count the first ``taken`` rows as durable, except for those that the sink has rejected."""
        context = self._sink.context
        rejected = 0 if context.rejected_rows is None else context.rejected_rows.count
        context.deliveries.settle(taken - rejected)

    def finalized(self, epoch: int) -> None:
        self._sink.finalized(epoch)

    def close(self) -> None:
        self._sink.close()


#: Results of a transform wait for others until they are this many rows, or the first one is this many seconds old.
JOINED_ROWS, JOINED_SECONDS = 10_000, 0.2


class TransformWork:
    """Passes the batches of a lane through an Arrow transform.

    Results for SQL are joined while more input is at hand: a `batch_size` of a few rows makes thousands of results of
    one batch, and SQL takes milliseconds for each batch, however few rows it has.
    """

    def __init__(
        self,
        lane: str,
        transform: Transform[Any],
        schema: pa.Schema,
        session: SparkSession,
        segment: Segment,
        meter: NodeMeter,
        *,
        rejects: bool,
    ) -> None:
        """``segment`` takes the results; ``rejects``: rows with which the transform fails go to a dead-letter sink."""
        self._lane = lane
        self._transform = transform
        self._rejects = rejects
        self._schema = schema
        self._arriving = InputSchemaTracker(transform.context.input_schema)
        self._session = session
        self._segment = segment
        self._ports = segment.ports()
        joins = any(consumer.wants_frame for consumer in segment.root.consumers)
        self._joined = Rebatcher(None, JOINED_SECONDS if joins else None)
        #: when work on the first of the joined results began
        self._joined_since = 0.0
        self._meter = meter
        for port in self._ports:
            port.add_feeder(lane)

    def open(self, wake: Callable[[], None]) -> None:
        self._results = OrderedResults(self._timed, wake)
        self._transform.open()

    def process(self, batch: pa.RecordBatch) -> None:
        if self._arriving.detect_change(batch.schema):
            self._emit(self._results.drain())
            self._emit_joined()
            self._take_up_columns()
        if not self._joined.waiting_rows:
            self._joined_since = time.monotonic()
        self._emit(self._results.add(batch))

    def proceed(self) -> None:
        self._emit(self._results.ready())
        self._emit_joined()

    def alignment_started(self, epoch: int) -> None:
        """Do nothing: a transform has no state."""

    def mark(self, epoch: int) -> None:
        self._emit(self._results.drain())
        self._emit_joined()
        self._transform.marker(epoch)
        for port in self._ports:
            port.mark(self._lane, epoch)

    def finalized(self, epoch: int) -> None:
        self._transform.finalized(epoch)

    def close(self) -> None:
        self._transform.close()

    def _take_up_columns(self) -> None:
        """Continue with an instance for the new input columns; no call is in flight."""
        old, new = self._transform, self._transform.with_input_schema(self._arriving.schema)
        self._schema = new.output_schema()
        report_dropped_columns(old.context, self._arriving.schema, self._schema)
        new.open()
        self._transform = new
        old.close()

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch | AsyncCalls[Any]:
        began = time.monotonic()
        made = _process_or_reject(self._transform, batch) if self._rejects else self._transform.process(batch)
        self._meter.record_elapsed(time.monotonic() - began)
        return made

    def _emit(self, results: Iterable[pa.RecordBatch]) -> None:
        for result in results:
            rows = as_declared(result, self._schema)
            if not rows.num_rows:
                self._meter.activity.count_batch(0)
                continue
            self._pass_on(self._joined.add(rows, self._joined_since))
            if self._joined.waiting_rows >= JOINED_ROWS or self._joined.due(time.monotonic()) == 0.0:
                self._emit_joined()

    def _emit_joined(self) -> None:
        self._pass_on(self._joined.drain())

    def _pass_on(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._segment.run(Rows(self._session, batches=[batch], producer=self._lane))


# ── operators that reject the rows they fail with, and continue ──────────────────────────────────────────────

#: what a transform makes of a batch
Result: TypeAlias = pa.RecordBatch | AsyncCalls[Any]


def _write_or_reject(sink: Sink[Any], batch: pa.RecordBatch) -> None:
    """Write ``batch`` without the rows with which the sink fails."""
    reject_failing_rows(sink.write, batch, sink.context.reject)


def _process_or_reject(transform: Transform[Any], batch: pa.RecordBatch) -> Result:
    """Return the result of ``batch`` without the rows with which the transform fails."""
    made: list[Result] = []
    reject_failing_rows(lambda part: made.append(transform.process(part)), batch, transform.context.reject)
    if len(made) == 1:
        return made[0]
    schema = transform.output_schema()
    rows = pa.Table.from_batches([_rows(one) for one in made], schema)
    return pa.record_batch([column.combine_chunks() for column in rows.columns], schema=schema)


def _rows(made: Result) -> pa.RecordBatch:
    if isinstance(made, AsyncCalls):
        raise StreamlingError("it raised a BadRow and returned calls: reject rows with context.reject instead")
    return made
