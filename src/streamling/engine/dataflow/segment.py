"""Segments: what Spark computes of the rows of one producer.

A segment begins with the rows of a source, or of a transform that runs in a lane. It contains the SQL below, and ends
where rows leave Spark: at lanes, which take Arrow data, and at sinks that Spark writes. Adjacent SQL nodes form one
plan, because each of them only wraps the DataFrame of the one before.

It is made once, with its measuring points, and evaluated in two ways: by Spark jobs (`Segment.run`, on the producer's
thread), and by the driver, which compiles it once per stream and then evaluates small batches without a job
(`driver_evaluator.py`). Markers follow the paths of the rows: the producer sends one to every port of its segment,
after the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, Protocol

from streamling.engine.dataflow.alignment import Port
from streamling.engine.dataflow.dead_letters import DeadLetterOutput, split_rejected
from streamling.engine.dataflow.meter import NodeMeter, SparkCounting
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.engine.dataflow.rows import Rows
from streamling.engine.dataflow.side_outputs import SideOutputNode
from streamling.errors import StreamlingError
from streamling.observe.activity import Edge, passing
from streamling.pipeline.model import Node
from streamling.plugins.operators import Operator
from streamling.plugins.streams import NeedsJob
from streamling.plugins.transforms import FrameTransform
from streamling.spark.counting import keeps_rows

log = logging.getLogger(__name__)


class Consumer(Protocol):
    """Takes the rows of a node: another node of the segment, or one at its end."""

    wants_frame: bool

    @property
    def name(self) -> str:
        """The name of its node."""

    @property
    def reports_count(self) -> bool:
        """Whether it finds out the number of rows that it takes, so that Spark does not have to count them."""

    def accept(self, upstream: str, rows: Rows) -> None: ...

    def ports(self) -> Sequence[Port]: ...


class SegmentNode:
    """One node of a segment: its consumers, the side outputs that receive its rows first, and what measures them."""

    def __init__(
        self,
        node: Node,
        consumers: Sequence[Consumer],
        side_outputs: Sequence[SideOutputNode],
        meter: NodeMeter,
        counting: SparkCounting,
    ) -> None:
        """``meter`` counts the rows; with active ``counting`` also those that stay in Spark."""
        self.node = node
        self.consumers = consumers
        self.side_outputs = side_outputs
        self.meter = meter
        self.edges = [Edge(meter.activity, consumer.name) for consumer in consumers]
        # rows that a consumer loads into Python are counted there
        self._stays_in_spark = all(consumer.wants_frame for consumer in consumers)
        self.counting = counting

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def only_consumer(self) -> Consumer | None:
        """The only consumer, if there is one and no side output."""
        return self.consumers[0] if len(self.consumers) == 1 and not self.side_outputs else None

    @property
    def leaves_spark(self) -> bool:
        """Whether all of its rows are loaded into Python."""
        return not self.side_outputs and not any(consumer.wants_frame for consumer in self.consumers)

    def with_consumers(self, consumers: Sequence[Consumer]) -> SegmentNode:
        """Return a node for the same rows that has only these consumers."""
        return SegmentNode(self.node, consumers, self.side_outputs, self.meter, SparkCounting())

    def emit(self, rows: Rows) -> None:
        """Pass ``rows`` to every consumer; their plan runs once, however many consumers there are."""
        rows.on_count(self.meter.count_rows_out)
        rows.on_count(self.meter.activity.count_batch)
        if self._counts_in_spark:
            rows.count_in_spark()
        measures = self.own_measures
        if measures is not None and not rows.in_python and self._stays_in_spark:
            rows.measure(measures)
            measures = None
        if len(self.consumers) > 1 and any(consumer.wants_frame for consumer in self.consumers):
            rows.persist()
        try:
            self._pass_on(rows)
            rows.settle()
            if measures is not None:
                measures.record_batches(rows.batches())
            if self.meter.measures is not None:
                self.meter.measures.collect()
            self.show(rows)
        finally:
            rows.unpersist()

    def _pass_on(self, rows: Rows) -> None:
        with ExitStack() if self.side_outputs else nullcontext() as stack:
            for side in self.side_outputs:
                assert stack is not None
                stack.enter_context(side.showing(self.name, rows))
            for consumer, edge in zip(self.consumers, self.edges, strict=True):
                with passing(edge):
                    consumer.accept(self.name, rows)

    @property
    def _counts_in_spark(self) -> bool:
        """Whether only Spark can say how many rows there are, and somebody wants to know."""
        wanted = self._stays_in_spark and self.counting.active
        return wanted and not any(consumer.reports_count for consumer in self.consumers)

    def edge_to(self, consumer: Consumer) -> Edge:
        """Return the edge to one of the consumers."""
        return next(edge for each, edge in zip(self.consumers, self.edges, strict=True) if each is consumer)

    @property
    def own_measures(self) -> RowMeasures | None:
        """The measures that are made here, and not by the source itself."""
        measures = self.meter.measures
        return None if measures is None or measures.by_source else measures

    @property
    def is_watched(self) -> bool:
        """Whether rows that stay in Spark would be shown to somebody."""
        live = self.meter.live_rows
        return live is not None and live.wanted(in_python=False) > 0

    def show(self, rows: Rows) -> None:
        """Show some of ``rows`` to those who watch the node."""
        live = self.meter.live_rows
        wanted = 0 if live is None else live.wanted(in_python=rows.in_python)
        if live is None or not wanted:
            return
        try:
            live.offer(*rows.head(wanted))
        except StreamlingError as error:  # the rows have been delivered: this must not stop the pipeline
            log.debug("%s: rows cannot be shown: %s", self.name, error)

    def ports(self) -> list[Port]:
        """Return every port that rows of this node reach without passing through a lane, each once."""
        reached: list[Port] = [*self.side_outputs, *(port for each in self.consumers for port in each.ports())]
        return list({id(port): port for port in reached}.values())


def job_for_each_batch(operator: Operator[Any], inputs: int) -> NeedsJob | None:
    """Return why each batch of a transform that reads this many nodes needs its own plan; None: it does not. The empty
    frames that replace the other inputs of a UNION ALL are not part of the messages of a stream."""
    if operator.per_batch:
        return NeedsJob("it queries a dynamic table", "remove dynamic_table_check")
    return NeedsJob("it reads several nodes", "use one node for each of them") if inputs > 1 else None


class SqlNode(SegmentNode):
    """A transform that Spark runs."""

    wants_frame = True

    def __init__(
        self,
        node: Node,
        operator: FrameTransform[Any],
        empty_inputs: Mapping[str, Rows],
        consumers: Sequence[Consumer],
        side_outputs: Sequence[SideOutputNode],
        meter: NodeMeter,
        counting: SparkCounting,
    ) -> None:
        super().__init__(node, consumers, side_outputs, meter, counting)
        self._operator = operator
        self._empty_inputs = empty_inputs
        #: whether it makes one row of each row, which its plan does not change; None: not known before the first batch
        self._keeps_rows: bool | None = None

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
        self.emit(made)

    def transform(self, upstream: str, rows: Rows) -> Rows:
        """Return the plan over one upstream; the other inputs of a UNION ALL are empty, since they have their own
        batches."""
        inputs = {**self._empty_inputs, upstream: rows}
        frames = {name: each.frame() for name, each in inputs.items()}
        lineage = (*rows.lineage, (self.node, self._operator))
        frame = Rows(rows.session, lineage=lineage).run(
            lambda: self._operator.apply_batch(
                rows.session, frames, lambda: {name: each.numbered() for name, each in inputs.items()}
            )
        )
        if self.node.options.instance_count > 1 and not self.side_outputs:  # they need the rows in source order
            frame = frame.repartition(self.node.options.instance_count, *self.node.primary_key)
        return Rows(
            rows.session, frame=frame, lineage=lineage, producer=rows.producer, on_elapsed=self.meter.record_plan
        )


class Segment:
    """The nodes from the rows of one producer to where they leave Spark."""

    def __init__(self, root: SegmentNode, dead_letters: DeadLetterOutput | None = None) -> None:
        """``dead_letters`` takes the rows that the producer rejects."""
        self.root = root
        self.dead_letters = dead_letters

    def run(self, rows: Rows) -> None:
        """Compute ``rows`` and pass them on."""
        self.root.emit(rows)

    def run_stream(self, rows: Rows) -> None:
        """Compute rows of a stream and pass them on; with a dead-letter sink, some of them are rejected."""
        if self.dead_letters is not None:
            rejected, rows = split_rejected(rows, in_python=self.root.leaves_spark)
            self.dead_letters.send_reasons(rejected)
        self.root.emit(rows)

    def ports(self) -> list[Port]:
        """Return every port that gets the markers of the producer, except those of `dead_letters`."""
        return self.root.ports()
