"""From an analysis to the running parts: lanes, sinks that Spark writes, and flows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.engine.checkpoint.clock import Clock
from streamling.engine.dataflow.dead_letters import DeadLetterOutput, RejectingWork, rejecting_outlet
from streamling.engine.dataflow.flow import Flow
from streamling.engine.dataflow.frame_sink import FrameSinkStep
from streamling.engine.dataflow.lane import QUEUE_LENGTH, Lane, Work
from streamling.engine.dataflow.limit import RowLimit
from streamling.engine.dataflow.meter import NodeMeter, SparkCounting
from streamling.engine.dataflow.network import FrameStep, LaneStep, Outlet, Step
from streamling.engine.dataflow.polled_flow import PolledFlow
from streamling.engine.dataflow.rebatch import Rebatcher
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.engine.dataflow.rows import Rows
from streamling.engine.dataflow.side_outputs import SideOutputStep
from streamling.engine.dataflow.streamed_flow import StreamedFlow
from streamling.engine.dataflow.table_gate import TableFeed, TableGate, awaited_tables
from streamling.engine.dataflow.work import SinkWork, TransformWork
from streamling.engine.planning.execution_graph import Callbacks, ExecutionGraph
from streamling.engine.planning.instances import router_of
from streamling.engine.planning.placement import Placement
from streamling.engine.planning.planned import Analysis, ContextFactory, PlannedNode
from streamling.errors import StreamlingError
from streamling.observe.observer import RunObserver
from streamling.pipeline.error_locations import add_location
from streamling.pipeline.model import Node
from streamling.plugins.operators import Operator
from streamling.plugins.side_outputs import SideOutput
from streamling.plugins.sinks import FrameSink, Sink
from streamling.plugins.sources import Source
from streamling.plugins.streams import StreamedSource
from streamling.plugins.transforms import FrameTransform, Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: makes the work of one lane: lane name, operator instance, whether its rejected rows have a dead-letter sink
WorkFactory = Callable[[str, Any, bool], Work]


@dataclass
class Builder:
    """Makes all parts of a pipeline and connects them; nothing is started."""

    analysis: Analysis
    session: SparkSession
    placement: Placement
    context: ContextFactory
    callbacks: Callbacks
    clock: Clock
    row_limit: int | None
    observer: RunObserver
    #: by node
    measures: Mapping[str, RowMeasures]
    #: whether rows that stay in Spark are counted too, which costs time there
    counting: SparkCounting = field(default_factory=SparkCounting)
    #: batches that may wait in front of a node
    queue_length: Callable[[Node], int] = lambda node: QUEUE_LENGTH
    graph: ExecutionGraph = field(default_factory=ExecutionGraph)
    _steps: dict[str, Step] = field(default_factory=dict)
    _meters: dict[str, NodeMeter] = field(default_factory=dict)

    def build(self) -> ExecutionGraph:
        for name, side_output in self.analysis.side_outputs.items():
            self._add_side_output(self.analysis.pipeline[name], side_output)
        for node in self.analysis.pipeline.sources:
            self._add_flows(self.analysis.nodes[node.name])
        self._add_gates()
        return self.graph

    # ── flows ────────────────────────────────────────────────────────────────────────────────────────────────

    def _add_flows(self, planned: PlannedNode) -> None:
        self.graph.operators[planned.node.name] = [planned.operator]
        for number in range(planned.instances):
            source = planned.operator if number == 0 else self._instance(planned, planned.operator, number)
            name = _instance_name(planned, number)
            self.graph.flows[name] = self._flow(planned, source, name)

    def _flow(self, planned: PlannedNode, source: Operator[Any], name: str) -> Flow:
        node, outlet = planned.node, self._outlet(planned.node.name)
        schema, session, dead_letters = planned.schema, self.session, self._dead_letter_output(name, source)
        callbacks: dict[str, Any] = {
            "on_marked": self.callbacks.on_marked,
            "on_moved": self.callbacks.on_moved,
            "on_end": self.callbacks.on_end,
            "on_failure": self.callbacks.on_failure,
            "activity": self.observer.activities[node.name],
        }
        match source:
            case StreamedSource():
                stream = {"stream_outlet": outlet, "meter": self._meter(node.name), "counting": self.counting}
                if node.dead_letters is not None:
                    letters, recent = self._step(node.dead_letters), self.observer.dead_letters
                    stream["stream_outlet"] = rejecting_outlet(outlet, node.name, letters, recent)
                return StreamedFlow(name, node, source, schema, session, outlet, dead_letters, **callbacks | stream)
            case Source():
                return PolledFlow(name, node, source, schema, session, outlet, dead_letters, **callbacks)
        raise StreamlingError(f"{node}: {type(source).__name__} is neither a Source nor a StreamedSource")

    def _add_gates(self) -> None:
        """Hold flows back whose rows look values up in tables that other flows fill."""
        tables = [name for name, step in self.graph.side_outputs.items() if step.operator.blocks_until_filled]
        for source, feeds in awaited_tables(self.analysis.pipeline, tables).items():
            waits = [
                TableFeed(self.graph.side_outputs[table], self._flows_of(feeders)) for table, feeders in feeds.items()
            ]
            for feed in waits:
                for flow in feed.flows:
                    flow.watch(self.callbacks.request_checkpoint)
            for flow in self._flows_of({source}):
                flow.gate = TableGate(flow, waits)

    def _flows_of(self, sources: Collection[str]) -> list[Flow]:
        return [flow for flow in self.graph.flows.values() if flow.node.name in sources]

    # ── outlets and steps ────────────────────────────────────────────────────────────────────────────────────

    def _outlet(self, name: str) -> Outlet:
        consumers = [node.name for node in self.analysis.pipeline.consumers(name)]
        side_outputs = [
            self.graph.side_outputs[consumer] for consumer in consumers if consumer in self.graph.side_outputs
        ]
        steps = [self._step(each) for each in consumers if each not in self.graph.side_outputs]
        return Outlet(name, steps, side_outputs, self._meter(name), self.counting)

    def _step(self, name: str) -> Step:
        """The step of a node; flows that meet in a node share it."""
        if name not in self._steps:
            self._steps[name] = self._new_step(self.analysis.nodes[name])
        return self._steps[name]

    def _new_step(self, planned: PlannedNode) -> Step:
        operator = self.placement.place(planned)
        self.graph.operators[planned.node.name] = [operator]
        match operator:
            case FrameTransform():
                return self._frame_step(planned, operator)
            case FrameSink():
                return self._frame_sink(planned, operator)
            case Transform():
                outlet = self._outlet(planned.node.name)
                return self._lanes(planned, operator, self._transform_work(planned, outlet), outlet)
            case Sink():
                return self._lanes(planned, operator, self._sink_work(planned, operator))
        raise StreamlingError(f"{planned.node}: {type(operator).__name__} is neither a transform nor a sink")

    def _frame_step(self, planned: PlannedNode, operator: FrameTransform[Any]) -> FrameStep:
        node, empty_frames = planned.node, self.analysis.empty_frames
        empty = {name: Rows(self.session, frame=empty_frames[name]) for name in node.upstreams if name in empty_frames}
        return FrameStep(node, operator, empty, self._outlet(node.name), self._meter(node.name))

    def _frame_sink(self, planned: PlannedNode, operator: FrameSink[Any]) -> FrameSinkStep:
        limit, meter = self._limit(None), self._meter(planned.node.name)
        step = FrameSinkStep(planned.node, operator, limit, self.callbacks.on_ack, meter)
        self.graph.frame_sinks.append(step)
        self.graph.sinks.append(planned.node.name)
        return step

    def _add_side_output(self, node: Node, operator: SideOutput[Any]) -> None:
        self.graph.side_outputs[node.name] = SideOutputStep(
            node, operator, self.callbacks.on_ack, self.callbacks.on_failure
        )
        self.graph.operators[node.name] = [operator]
        if node.upstreams:
            self.graph.sinks.append(node.name)

    # ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────

    def _lanes(
        self, planned: PlannedNode, first: Operator[Any], make_work: WorkFactory, outlet: Outlet | None = None
    ) -> LaneStep:
        node, instances = planned.node, planned.instances
        lanes = []
        for number in range(instances):
            operator = first if number == 0 else self._instance(planned, first, number)
            name = _instance_name(planned, number)
            dead_letters = self._dead_letter_output(name, operator)
            work = make_work(name, operator, dead_letters is not None)
            lanes.append(
                self._lane(planned, number, work if dead_letters is None else RejectingWork(work, dead_letters))
            )
        self.graph.lanes.extend(lanes)
        upstream_key = self.analysis.pipeline[node.upstreams[0]].primary_key if node.upstreams else ()
        if instances > 1 and not set(planned.input_schema.names).issuperset(node.primary_key):
            routed = f"by the key of its upstream ({', '.join(upstream_key)})" if upstream_key else "in turn"
            first.context.log.warning(
                "the columns of its key (%s) are not in its input: rows are routed to its instances %s",
                ", ".join(node.primary_key),
                routed,
            )
        router = router_of(node, type(first), planned.input_schema, upstream_key)
        return LaneStep(node, lanes, router, self._meter(node.name), outlet)

    def _transform_work(self, planned: PlannedNode, outlet: Outlet) -> WorkFactory:
        meter = self._meter(planned.node.name)

        def work(lane: str, transform: Transform[Any], rejects: bool) -> Work:
            return TransformWork(lane, transform, planned.schema, outlet, self._rows, meter, rejects=rejects)

        return work

    def _sink_work(self, planned: PlannedNode, first: Sink[Any]) -> WorkFactory:
        limit, meter = self._limit(first.row_limit), self._meter(planned.node.name)

        def work(lane: str, sink: Sink[Any], rejects: bool) -> Work:
            self.graph.sinks.append(lane)
            return SinkWork(lane, sink, limit, self.callbacks.on_ack, meter, rejects=rejects)

        return work

    def _lane(self, planned: PlannedNode, number: int, work: Work) -> Lane:
        return Lane(
            replace(planned.node.label, instance=number if planned.instances > 1 else None),
            work,
            rebatcher=Rebatcher(*planned.operator.batching()),
            clock=self.clock,
            activity=self.observer.activities[planned.node.name],
            on_failure=lambda error: self.callbacks.on_failure(add_location(error, planned.node)),
            markers=self.observer.epochs.markers_of(_instance_name(planned, number)),
            queue_length=self.queue_length(planned.node),
        )

    # ── what the parts share ─────────────────────────────────────────────────────────────────────────────────

    def _instance(self, planned: PlannedNode, first: Operator[Any], number: int) -> Operator[Any]:
        operator = type(first)(self.context(planned.node, planned.input_schema, number, planned.instances))
        self.graph.operators[planned.node.name].append(operator)
        return operator

    def _dead_letter_output(self, feeder: str, operator: Operator[Any]) -> DeadLetterOutput | None:
        """Takes the rejected rows of an instance when its node has a dead-letter sink."""
        name, rejected = self.analysis.pipeline[operator.context.name].dead_letters, operator.context.rejected_rows
        if name is None or rejected is None:
            return None
        node, recent = operator.context.name, self.observer.dead_letters
        return DeadLetterOutput(feeder, node, rejected, self._step(name), self._rows, recent, self._meter(node))

    def _meter(self, name: str) -> NodeMeter:
        if name not in self._meters:
            planned = self.analysis.nodes[name]
            self._meters[name] = NodeMeter(
                planned.operator.context.metrics,
                self.observer.activities[name],
                self.observer.live_rows.of(name),
                self.measures.get(name),
                takes=planned.node.kind.has_input,
                computes=planned.node.kind.has_output,
                sub_plan=planned.operator.sub_plan_metrics,
            )
        return self._meters[name]

    def _limit(self, row_limit: int | None) -> RowLimit:
        return RowLimit(row_limit or self.row_limit, self.callbacks.on_limit, self.callbacks.on_first_rows)

    def _rows(self, lane: str, batch: pa.RecordBatch) -> Rows:
        return Rows(self.session, batches=[batch], producer=lane)


def _instance_name(planned: PlannedNode, number: int) -> str:
    return planned.node.name if planned.instances == 1 else f"{planned.node.name}[{number}]"
