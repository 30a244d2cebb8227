"""The work of lanes: write to a sink, or transform rows and pass them on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from streamling.dataflow.limit import RowLimit
from streamling.dataflow.meter import NodeMeter
from streamling.dataflow.network import Outlet
from streamling.dataflow.ordered_results import OrderedResults
from streamling.dataflow.rows import Rows, as_declared
from streamling.dataflow.schema_changes import InputSchemaTracker, report_dropped_columns
from streamling.dataflow.side_outputs import OnAck
from streamling.plugins.sinks import Sink
from streamling.plugins.transforms import AsyncCalls, Transform


class SinkWork:
    """What the lane of a sink does."""

    def __init__(self, lane: str, sink: Sink[Any], limit: RowLimit, on_ack: OnAck, meter: NodeMeter) -> None:
        self._lane = lane
        self._sink = sink
        self._limit = limit
        self._on_ack = on_ack
        self._meter = meter
        self._refused = False
        #: rows passed to the sink, and how many of them have been counted as written
        self._taken = self._measured = 0

    def open(self, wake: Callable[[], None]) -> None:
        self._sink.open()

    def process(self, batch: pa.RecordBatch) -> None:
        allowed = self._limit.take(batch.num_rows)
        self._refused |= allowed < batch.num_rows
        if allowed:
            began = time.monotonic()
            for start in range(0, allowed, step := self._sink.rows_per_write or allowed):
                self._write(batch.slice(start, min(step, allowed - start)))
            activity = self._meter.activity
            activity.last_rows, activity.last_seconds = allowed, time.monotonic() - began
        if self._refused:  # the pipeline ends here, and no marker will make the last rows durable
            self._sink.flush()

    def _write(self, rows: pa.RecordBatch) -> None:
        self._sink.write(rows)
        if self._meter.measures is not None:
            self._meter.measures.record_batches([rows])
        self._taken += rows.num_rows
        self._measure()

    def proceed(self) -> None:
        """A sink has no output."""

    def alignment_started(self, epoch: int) -> None:
        self._sink.on_first_marker(epoch)

    def mark(self, epoch: int) -> None:
        def acknowledge(entries: Mapping[str, Any] = MappingProxyType({}), /) -> None:
            if not self._refused:  # a position after rows that were not written must never be stored
                self._on_ack(self._lane, epoch, entries)

        self._sink.marker(epoch, acknowledge)
        self._measure()

    def _measure(self) -> None:
        """Count the rows that were written. If the sink rejects rows after it has accepted them, the following ones
        compensate for them, since a counter only grows."""
        rejected = self._sink.context.rejected_rows
        written = self._taken - (0 if rejected is None else rejected.count)
        if written > self._measured:
            self._meter.count_rows_out(written - self._measured)
            self._measured = written

    def finalized(self, epoch: int) -> None:
        self._sink.finalized(epoch)

    def close(self) -> None:
        self._sink.close()


class TransformWork:
    """What the lane of an Arrow transform does."""

    def __init__(
        self,
        lane: str,
        transform: Transform[Any],
        schema: pa.Schema,
        outlet: Outlet,
        rows: Callable[[str, pa.RecordBatch], Rows],
        meter: NodeMeter,
    ) -> None:
        self._lane = lane
        self._transform = transform
        self._schema = schema
        self._arriving = InputSchemaTracker(transform.context.input_schema)
        self._outlet = outlet
        self._ports = outlet.ports()
        self._rows = rows
        self._meter = meter
        for port in self._ports:
            port.add_feeder(lane)

    def open(self, wake: Callable[[], None]) -> None:
        self._results = OrderedResults(self._timed, wake)
        self._transform.open()

    def process(self, batch: pa.RecordBatch) -> None:
        if self._arriving.detect_change(batch.schema):
            self._emit(self._results.drain())
            self._take_up_columns()
        self._emit(self._results.add(batch))

    def proceed(self) -> None:
        self._emit(self._results.ready())

    def alignment_started(self, epoch: int) -> None:
        """A transform has no state."""

    def mark(self, epoch: int) -> None:
        self._emit(self._results.drain())
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
        made = self._transform.process(batch)
        self._meter.record_elapsed(time.monotonic() - began)
        return made

    def _emit(self, results: Iterable[pa.RecordBatch]) -> None:
        for result in results:
            rows = as_declared(result, self._schema)
            if rows.num_rows:
                self._outlet.emit(self._rows(self._lane, rows))
            else:
                self._meter.activity.count_batch(0)
