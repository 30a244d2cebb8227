"""What happens to a batch downstream of its source.

Every producer of rows (a source, or a transform that runs in a lane) has an `Outlet`: the steps that take its rows.
Spark steps run immediately on the producer's thread and emit to their own outlet; lanes take the rows as Arrow data and
process them on their own thread. Markers follow the same paths: each producer sends a marker to every port that its
rows can reach, after the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, Protocol

from streamling.engine.dataflow.lane import Lane
from streamling.engine.dataflow.meter import NodeMeter, SparkCounting
from streamling.engine.dataflow.routing import Router
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.engine.dataflow.rows import Rows
from streamling.engine.dataflow.side_outputs import SideOutputStep
from streamling.errors import StreamlingError
from streamling.observe.activity import Edge, passing
from streamling.pipeline.model import Node
from streamling.plugins.operators import Operator
from streamling.plugins.streams import NeedsJob
from streamling.plugins.transforms import FrameTransform
from streamling.spark.counting import keeps_rows

log = logging.getLogger(__name__)


class Port(Protocol):
    """A receiver of markers: a lane, a sink that Spark writes, or a side output."""

    def add_feeder(self, name: str) -> None: ...

    def mark(self, feeder: str, epoch: int) -> None: ...


class Step(Protocol):
    """Takes the rows of a node."""

    wants_frame: bool

    @property
    def name(self) -> str:
        """The name of its node."""

    @property
    def reports_count(self) -> bool:
        """Whether it finds out the number of rows that it takes, so that Spark does not have to count them."""

    def accept(self, upstream: str, rows: Rows) -> None: ...

    def ports(self) -> Sequence[Port]: ...


class Outlet:
    """All consumers of one node, and the side outputs that receive its rows first. ``meter`` counts the rows; with
    active ``counting``, rows that stay in Spark are counted, too."""

    def __init__(
        self,
        node: str,
        steps: Sequence[Step],
        side_outputs: Sequence[SideOutputStep] = (),
        meter: NodeMeter | None = None,
        counting: SparkCounting | None = None,
    ) -> None:
        self.node = node
        self.steps = steps
        self.side_outputs = side_outputs
        self.meter = meter
        #: one per step; None if nothing is measured here
        self.edges = [None if meter is None else Edge(meter.activity, step.name) for step in steps]
        # rows that a consumer loads into Python are counted there
        self._stays_in_spark = all(step.wants_frame for step in steps)
        self._counting = counting if self._stays_in_spark else None

    @property
    def only_step(self) -> Step | None:
        """The only consumer, if there is one and no side output."""
        return self.steps[0] if len(self.steps) == 1 and not self.side_outputs else None

    def with_steps(self, steps: Sequence[Step]) -> Outlet:
        """An outlet for the same rows that has only these consumers."""
        return Outlet(self.node, steps, self.side_outputs, self.meter)

    def emit(self, rows: Rows) -> None:
        """Pass ``rows`` to every consumer; their plan runs once, however many consumers there are."""
        if self.meter is not None:
            rows.on_count(self.meter.count_rows_out)
            rows.on_count(self.meter.activity.count_batch)
        if self._counting is not None and self._counting.active and not any(step.reports_count for step in self.steps):
            rows.count_in_spark()
        measures = self._measures
        if measures is not None and not rows.in_python and self._stays_in_spark:
            rows.measure(measures)
            measures = None
        if len(self.steps) > 1 and any(step.wants_frame for step in self.steps):
            rows.persist()
        try:
            with ExitStack() as stack:
                for side in self.side_outputs:
                    stack.enter_context(side.showing(self.node, rows))
                for step, edge in zip(self.steps, self.edges, strict=True):
                    with nullcontext() if edge is None else passing(edge):
                        step.accept(self.node, rows)
            rows.settle()
            if measures is not None:
                measures.record_batches(rows.batches())
            self._collect()
            self.show(rows)
        finally:
            rows.unpersist()

    def edge_to(self, step: Step) -> Edge | None:
        """The edge to one of the consumers."""
        return next(edge for each, edge in zip(self.steps, self.edges, strict=True) if each is step)

    @property
    def _measures(self) -> RowMeasures | None:
        """The measures that are made here."""
        measures = None if self.meter is None else self.meter.measures
        return None if measures is None or measures.by_source else measures

    def _collect(self) -> None:
        if self.meter is not None and self.meter.measures is not None:
            self.meter.measures.collect()

    @property
    def is_watched(self) -> bool:
        """Whether rows that stay in Spark would be shown to somebody."""
        live = None if self.meter is None else self.meter.live_rows
        return live is not None and live.wanted(in_python=False) > 0

    def show(self, rows: Rows) -> None:
        """Show some of ``rows`` to those who watch the node."""
        live = None if self.meter is None else self.meter.live_rows
        wanted = 0 if live is None else live.wanted(in_python=rows.in_python)
        if live is None or not wanted:
            return
        try:
            live.offer(*rows.head(wanted))
        except StreamlingError as error:  # the rows have been delivered: this must not stop the pipeline
            log.debug("%s: rows cannot be shown: %s", self.node, error)

    def ports(self) -> list[Port]:
        """Every port that rows of this node reach without passing through a lane, each once."""
        reached: list[Port] = [*self.side_outputs, *(port for step in self.steps for port in step.ports())]
        return list({id(port): port for port in reached}.values())


def job_for_each_batch(operator: Operator[Any], inputs: int) -> NeedsJob | None:
    """Why each batch of a transform that reads this many nodes needs its own plan; None: it does not. The empty frames
    that replace the other inputs of a UNION ALL are not part of the messages of a stream."""
    if operator.per_batch:
        return NeedsJob("it queries a dynamic table", "remove dynamic_table_check")
    return NeedsJob("it reads several nodes", "use one node for each of them") if inputs > 1 else None


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
        #: whether it makes one row of each row, which its plan does not change; None: not known before the first batch
        self._keeps_rows: bool | None = None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def reports_count(self) -> bool:
        return bool(self._keeps_rows)

    @property
    def needs_job(self) -> NeedsJob | None:
        """Why the driver cannot evaluate it for small batches, whatever its plan; None: that depends on the plan."""
        return job_for_each_batch(self._operator, len(self._empty_inputs))

    def accept(self, upstream: str, rows: Rows) -> None:
        rows.on_count(self.meter.count_rows_in)
        taken, made = rows.frame(), self.transform(upstream, rows)
        if self._keeps_rows is None:
            self._keeps_rows = keeps_rows(taken, made.frame())
        if self._keeps_rows:
            rows.count_with(made)
        self.outlet.emit(made)

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
            rows.session, frame=frame, lineage=lineage, producer=rows.producer, on_elapsed=self.meter.record_plan
        )

    def ports(self) -> Sequence[Port]:
        return self.outlet.ports()


class LaneStep:
    """A node that runs in one or more lanes."""

    wants_frame = False
    #: rows that are loaded into Python are counted there
    reports_count = True

    def __init__(
        self, node: Node, lanes: Sequence[Lane], router: Router, meter: NodeMeter, outlet: Outlet | None
    ) -> None:
        """``outlet`` takes the rows of a transform."""
        self.node = node
        self.lanes = lanes
        self.outlet = outlet
        self._router = router
        self._meter = meter

    @property
    def name(self) -> str:
        return self.node.name

    def accept(self, upstream: str, rows: Rows) -> None:
        rows.on_count(self._meter.count_rows_in)
        for batch in rows.batches():
            for lane, share in self._router.split(batch):
                self.lanes[lane].put(share)

    def ports(self) -> Sequence[Port]:
        return self.lanes
