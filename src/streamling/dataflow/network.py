"""What happens to a batch downstream of its source.

Every producer of rows (a source, or a transform that runs in a lane) has an `Outlet`: the steps that take its rows.
Spark steps run immediately on the producer's thread and emit to their own outlet; lanes take the rows as Arrow data and
process them on their own thread. Markers follow the same paths: each producer sends a marker to every port that its
rows can reach, after the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar

from streamling.dataflow.lane import Lane
from streamling.dataflow.limit import RowLimit
from streamling.dataflow.meter import NodeMeter
from streamling.dataflow.routing import Router
from streamling.dataflow.row_observation import RowObservation
from streamling.dataflow.rows import Rows
from streamling.dataflow.side_outputs import OnAck, SideOutputStep
from streamling.errors import StreamlingError
from streamling.pipeline.error_locations import node_error, node_errors
from streamling.pipeline.model import Node
from streamling.plugins.operators import FrameSink, FrameTransform

T = TypeVar("T")

#: Seconds to wait for the count of rows that have been written, if a limit depends on it and otherwise.
#: Spark reports it on a thread of its own, within milliseconds, unless it is so far behind that it drops reports.
_LIMIT_WAIT, _COUNT_WAIT = 30.0, 2.0


class Port(Protocol):
    """A receiver of markers: a lane, a sink that Spark writes, or a side output."""

    def add_feeder(self, name: str) -> None: ...

    def mark(self, feeder: str, epoch: int) -> None: ...


class Step(Protocol):
    """Takes the rows of a node."""

    wants_frame: bool

    def accept(self, upstream: str, rows: Rows) -> None: ...

    def ports(self) -> Sequence[Port]: ...


class Outlet:
    """All consumers of one node, and the side outputs that receive its rows first. ``meter`` counts the rows; with
    ``observing``, rows that stay in Spark are counted, too."""

    def __init__(
        self,
        node: str,
        steps: Sequence[Step],
        side_outputs: Sequence[SideOutputStep] = (),
        meter: NodeMeter | None = None,
        observing: bool = False,
    ) -> None:
        self._node = node
        self.steps = steps
        self.side_outputs = side_outputs
        self._meter = meter
        # rows that a consumer loads into Python are counted there
        self._observing = observing and all(step.wants_frame for step in steps)

    @property
    def only_step(self) -> Step | None:
        """The only consumer, if there is one and no side output."""
        return self.steps[0] if len(self.steps) == 1 and not self.side_outputs else None

    def emit(self, rows: Rows) -> None:
        """Pass ``rows`` to every consumer; their plan runs once, however many consumers there are."""
        if self._meter is not None:
            rows.on_count(self._meter.count_rows_out)
        if self._observing:
            rows.observe()
        if len(self.steps) > 1 and any(step.wants_frame for step in self.steps):
            rows.persist()
        try:
            with ExitStack() as stack:
                for side in self.side_outputs:
                    stack.enter_context(side.showing(self._node, rows))
                for step in self.steps:
                    step.accept(self._node, rows)
            rows.settle()
        finally:
            rows.unpersist()

    def ports(self) -> list[Port]:
        """Every port that rows of this node reach without passing through a lane, each once."""
        reached: list[Port] = [*self.side_outputs, *(port for step in self.steps for port in step.ports())]
        return list({id(port): port for port in reached}.values())


class FrameStep:
    """A transform that Spark runs."""

    wants_frame = True

    def __init__(
        self,
        node: Node,
        operator: FrameTransform[Any],
        empty_inputs: Mapping[str, Rows],
        outlet: Outlet,
        meter: NodeMeter,
    ) -> None:
        self.node = node
        self._operator = operator
        self._empty_inputs = empty_inputs
        self.outlet = outlet
        self.meter = meter

    @property
    def per_batch(self) -> bool:
        """Whether every batch needs its own plan, so that the step cannot be part of a streaming plan: a stream cannot
        be combined with the empty frames that replace the other inputs of a UNION ALL."""
        return self._operator.per_batch or len(self._empty_inputs) > 1

    def accept(self, upstream: str, rows: Rows) -> None:
        rows.on_count(self.meter.count_rows_in)
        self.outlet.emit(self.transform(upstream, rows))

    def transform(self, upstream: str, rows: Rows) -> Rows:
        """The plan over one upstream; the other inputs of a UNION ALL are empty, since they have their own batches."""
        inputs = {**self._empty_inputs, upstream: rows}
        frames = {name: each.frame() for name, each in inputs.items()}
        lineage = (*rows.lineage, (self.node, self._operator))
        out = Rows(rows.session, lineage=lineage)
        frame = out.run(
            lambda: self._operator.apply_batch(
                rows.session, frames, lambda: {name: each.numbered() for name, each in inputs.items()}
            )
        )
        if self.node.options.instance_count > 1 and not self.outlet.side_outputs:  # they need the rows in source order
            frame = frame.repartition(self.node.options.instance_count, *self.node.primary_key)
        return Rows(
            rows.session, frame=frame, lineage=lineage, producer=rows.producer, on_elapsed=self.meter.record_elapsed
        )

    def ports(self) -> Sequence[Port]:
        return self.outlet.ports()


class FrameSinkStep:
    """A sink that Spark writes, on the producer's thread."""

    wants_frame = True

    def __init__(self, node: Node, operator: FrameSink[Any], limit: RowLimit, on_ack: OnAck, meter: NodeMeter) -> None:
        self.node = node
        self.operator = operator
        self._meter = meter
        self._limit = limit
        self._on_ack = on_ack
        self._feeders: set[str] = set()
        self._arrived: dict[int, set[str]] = {}
        self._lock = threading.Lock()  # flows that share the sink take turns
        #: False once Spark has not reported a count: the sink does not compute the frame that it receives
        self._countable = True

    def open(self) -> None:
        with node_errors(self.node):
            self.operator.open()

    def close(self) -> None:
        with node_errors(self.node, "closing"):
            self.operator.close()

    def accept(self, upstream: str, rows: Rows) -> None:
        with self._lock:
            count = self._take(rows)
        if count is None:
            rows.on_count(self._count)
        else:
            self._count(count)

    def _count(self, rows: int) -> None:
        """``rows`` rows have been written."""
        self._meter.count_rows_in(rows)
        self._meter.count_rows_out(rows)
        self._limit.take(rows)

    def prepare(self, rows: Rows) -> Rows:
        """The sink's own part of the plan."""
        frame = rows.run(lambda: self._with_error_context(lambda: self.operator.prepare(rows.frame())))
        return Rows(rows.session, frame=frame, lineage=rows.lineage, on_elapsed=rows.on_elapsed)

    def accept_prepared(self, rows: Rows) -> int:
        """Write rows that `prepare` has been applied to. Returns their number."""
        with self._lock:
            count = self._write_counted(rows) or 0
        self._count(count)
        return count

    def _take(self, rows: Rows) -> int | None:
        """Write ``rows``. Returns their number; None when they report it themselves."""
        if rows.in_python:
            with node_errors(self.node):
                taken = self.operator.write_arrow(rows.batches())
            if not taken:
                self._write(self.prepare(rows))
            return rows.count
        if rows.is_observed and not self.operator.counts_rows:
            self._write(self.prepare(rows))
            return None
        return self._write_counted(self.prepare(rows))

    def _write_counted(self, rows: Rows) -> int | None:
        """Write ``rows`` and count them: the sink does, or Spark, at 0.04 to 0.25 µs per row."""
        if self.operator.counts_rows or not self._countable:
            return self._write(rows)
        observed = RowObservation(rows.frame())
        self._write(Rows(rows.session, frame=observed.frame, lineage=rows.lineage, on_elapsed=rows.on_elapsed))
        count = observed.rows(_LIMIT_WAIT if self._limit.is_limited else _COUNT_WAIT)
        if count is None:
            self._countable = self._limit.is_limited
        return count

    def _write(self, rows: Rows) -> int | None:
        write = lambda: self._with_error_context(lambda: self.operator.write_frame(rows.frame()))  # noqa: E731
        return rows.job(write, self.node, "writing")

    def _with_error_context(self, call: Callable[[], T]) -> T:
        """Errors that the sink itself raises name it; other exceptions are about the plan above it."""
        try:
            return call()
        except StreamlingError as error:
            node_error(error, self.node)
            raise

    def ports(self) -> Sequence[Port]:
        return (self,)

    def add_feeder(self, name: str) -> None:
        self._feeders.add(name)

    def mark(self, feeder: str, epoch: int) -> None:
        """Every write before this call is already durable; acknowledge once all feeders have sent their marker."""
        with self._lock:
            arrived = self._arrived.setdefault(epoch, set())
            arrived.add(feeder)
            complete = arrived >= self._feeders
            if complete:
                self._arrived = {later: who for later, who in self._arrived.items() if later > epoch}
        if complete:
            self._on_ack(self.node.name, epoch, {})

    def notify_finalized(self, epoch: int) -> None:
        with self._lock:
            self.operator.finalized(epoch)


class LaneStep:
    """A node that runs in one or more lanes."""

    wants_frame = False

    def __init__(self, node: Node, lanes: Sequence[Lane], router: Router, meter: NodeMeter) -> None:
        self.node = node
        self.lanes = lanes
        self._router = router
        self._meter = meter

    def accept(self, upstream: str, rows: Rows) -> None:
        rows.on_count(self._meter.count_rows_in)
        for batch in rows.batches():
            for lane, share in self._router.split(batch):
                self.lanes[lane].put(share)

    def ports(self) -> Sequence[Port]:
        return self.lanes
