"""From an analysis to the running parts: lanes, sinks that Spark writes, and flows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.checkpoint.clock import Clock
from streamling.dataflow.dead_letters import DeadLetterOutput, RejectingWork, rejecting_outlet
from streamling.dataflow.flow import Flow, OnMarked, PulledFlow
from streamling.dataflow.lane import QUEUE_LENGTH, Lane
from streamling.dataflow.limit import RowLimit
from streamling.dataflow.meter import NodeMeter
from streamling.dataflow.network import FrameSinkStep, FrameStep, LaneStep, Outlet, Step
from streamling.dataflow.rebatch import Rebatcher
from streamling.dataflow.rejecting import RejectingSink, RejectingTransform
from streamling.dataflow.rows import Rows
from streamling.dataflow.side_outputs import OnAck, SideOutputStep
from streamling.dataflow.streamed_flow import StreamedFlow
from streamling.dataflow.table_gate import TableFeed, TableGate, awaited_tables
from streamling.dataflow.work import SinkWork, TransformWork
from streamling.errors import StreamlingError
from streamling.pipeline.error_locations import add_location
from streamling.pipeline.model import Node, NodeKind
from streamling.planning.analysis import Analysis, ContextFactory, PlannedNode
from streamling.planning.instances import router_of
from streamling.planning.placement import Placement
from streamling.plugins.operators import FrameSink, FrameTransform, Operator, Sink, Source, StreamedSource, Transform
from streamling.plugins.side_outputs import LookupTable, SideOutput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Callbacks:
    """What the parts tell the pipeline."""

    on_ack: OnAck
    on_marked: OnMarked
    on_end: Callable[[str], None]
    on_failure: Callable[[StreamlingError], None]
    #: a record limit is reached: reason, and whether the unfinished epoch must not be committed
    on_limit: Callable[[str, bool], None]
    #: the first rows have come to a sink
    on_first_rows: Callable[[], None]
    #: a checkpoint should begin now
    request_checkpoint: Callable[[], object]


@dataclass
class ExecutionGraph:
    """Everything that runs, in the order it was made: what is below comes first."""

    flows: dict[str, Flow] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)
    frame_sinks: list[FrameSinkStep] = field(default_factory=list)
    side_outputs: dict[str, SideOutputStep] = field(default_factory=dict)
    #: names of sinks and side outputs, which acknowledge epochs
    sinks: list[str] = field(default_factory=list)
    #: all instances by node name
    operators: dict[str, list[Operator[Any]]] = field(default_factory=dict)
    limits: dict[str, RowLimit] = field(default_factory=dict)

    @property
    def steps_without_lane(self) -> list[FrameSinkStep | SideOutputStep]:
        """What has operators to open and close but no thread of its own."""
        return [*self.side_outputs.values(), *self.frame_sinks]


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
    #: whether rows that stay in Spark are counted too, which costs time there
    observing: bool = False
    #: batches that may wait in front of a node
    queue_length: Callable[[Node], int] = lambda node: QUEUE_LENGTH
    parts: ExecutionGraph = field(default_factory=ExecutionGraph)
    _steps: dict[str, Step] = field(default_factory=dict)
    _meters: dict[str, NodeMeter] = field(default_factory=dict)

    def build(self) -> ExecutionGraph:
        for built in self.analysis.built.values():
            if isinstance(built.operator, SideOutput):
                self._add_side(built, built.operator)
        for node in self.analysis.pipeline.sources:
            self._add_flow(self.analysis.built[node.name])
        self._add_gates()
        return self.parts

    def _add_gates(self) -> None:
        tables = [name for name, side in self.parts.side_outputs.items() if _is_awaited(side.operator)]
        for source, feeds in awaited_tables(self.analysis.pipeline, tables).items():
            waits = [
                TableFeed(self.parts.side_outputs[table], self._flows_of(feeders)) for table, feeders in feeds.items()
            ]
            for feed in waits:
                for flow in feed.flows:
                    flow.watch(self.callbacks.request_checkpoint)
            for flow in self._flows_of({source}):
                flow.gate = TableGate(flow, waits)

    def _flows_of(self, sources: Collection[str]) -> list[Flow]:
        return [flow for flow in self.parts.flows.values() if flow.node.name in sources]

    def _add_flow(self, built: PlannedNode) -> None:
        self.parts.operators[built.node.name] = [built.operator]
        for number in range(built.instances):
            source = built.operator if number == 0 else self._instance(built, built.operator, number)
            name = _instance_name(built, number)
            self.parts.flows[name] = self._flow(built, source, name)

    def _flow(self, built: PlannedNode, source: Operator[Any], name: str) -> Flow:
        node, outlet = built.node, self._outlet(built.node.name)
        callbacks = {
            "on_marked": self.callbacks.on_marked,
            "on_end": self.callbacks.on_end,
            "on_failure": self.callbacks.on_failure,
        }
        if isinstance(source, StreamedSource):
            if node.dead_letters is not None:
                outlet = rejecting_outlet(outlet, node.name, self._step(node.dead_letters))
            meter = self._meter(node.name) if self.observing else None
            return StreamedFlow(name, node, source, self.session, outlet, meter, **callbacks)
        assert isinstance(source, Source)
        letters = self._dead_letter_output(name, source)
        return PulledFlow(name, node, source, built.schema, self.session, outlet, letters, **callbacks)

    def _add_side(self, built: PlannedNode, operator: SideOutput[Any]) -> None:
        node = built.node
        self.parts.side_outputs[node.name] = SideOutputStep(
            node, operator, self.callbacks.on_ack, self.callbacks.on_failure
        )
        self.parts.operators[node.name] = [operator]
        if node.upstreams:
            self.parts.sinks.append(node.name)

    def _outlet(self, name: str) -> Outlet:
        consumers = [node.name for node in self.analysis.pipeline.consumers(name)]
        side_outputs = [
            self.parts.side_outputs[consumer] for consumer in consumers if consumer in self.parts.side_outputs
        ]
        steps = [self._step(each) for each in consumers if each not in self.parts.side_outputs]
        return Outlet(name, steps, side_outputs, self._meter(name), self.observing)

    def _meter(self, name: str) -> NodeMeter:
        if name not in self._meters:
            node, operator = self.analysis.pipeline[name], self.analysis.built[name].operator
            self._meters[name] = NodeMeter(
                operator.context.metrics,
                takes=node.kind is not NodeKind.SOURCE,
                computes=node.kind is not NodeKind.SINK,
                sub_plan=operator.sub_plan_metrics,
            )
        return self._meters[name]

    def _step(self, name: str) -> Step:
        """The step of a node; flows that meet in a node share it."""
        if name not in self._steps:
            self._steps[name] = self._new_step(self.analysis.built[name])
        return self._steps[name]

    def _new_step(self, built: PlannedNode) -> Step:
        operator = self.placement.place(built)
        self.parts.operators[built.node.name] = [operator]
        match operator:
            case FrameTransform():
                absent = {
                    name: Rows(self.session, frame=self.analysis.empty_frames[name])
                    for name in built.node.upstreams
                    if name in self.analysis.empty_frames
                }
                outlet = self._outlet(built.node.name)
                return FrameStep(built.node, operator, absent, outlet, self._meter(built.node.name))
            case FrameSink():
                return self._frame_sink(built, operator)
            case Transform() | Sink():
                return self._lanes(built, operator)
        raise StreamlingError(f"{built.node}: {type(operator).__name__} is neither a transform nor a sink")

    def _frame_sink(self, built: PlannedNode, operator: FrameSink[Any]) -> FrameSinkStep:
        limit, meter = self._limit(built, None), self._meter(built.node.name)
        step = FrameSinkStep(built.node, operator, limit, self.callbacks.on_ack, meter)
        self.parts.frame_sinks.append(step)
        self.parts.sinks.append(built.node.name)
        return step

    def _lanes(self, built: PlannedNode, first: Transform[Any] | Sink[Any]) -> LaneStep:
        node, instances = built.node, built.instances
        outlet, meter = self._outlet(node.name), self._meter(node.name)
        limit = self._limit(built, first.row_limit if isinstance(first, Sink) else None)
        lanes = []
        for number in range(instances):
            operator = first if number == 0 else self._instance(built, first, number)
            name = _instance_name(built, number)
            letters = self._dead_letter_output(name, operator)
            if isinstance(operator, Sink):
                sink = operator if letters is None else RejectingSink(operator)
                work: Any = SinkWork(name, sink, limit, self.callbacks.on_ack, meter)
                self.parts.sinks.append(name)
            else:
                transform = operator if letters is None else RejectingTransform(operator)
                work = TransformWork(name, transform, built.schema, outlet, self._rows, meter)
            lanes.append(self._lane(built, name, work if letters is None else RejectingWork(work, letters)))
        self.parts.lanes.extend(lanes)
        upstream_key = self.analysis.pipeline[node.upstreams[0]].primary_key if node.upstreams else ()
        if instances > 1 and not set(built.input_schema.names).issuperset(node.primary_key):
            placed = f"the key of its upstream ({', '.join(upstream_key)})" if upstream_key else "turns"
            first.context.log.warning(
                "its key (%s) does not arrive: rows go to its instances by %s", ", ".join(node.primary_key), placed
            )
        return LaneStep(node, lanes, router_of(node, type(first), built.input_schema, upstream_key), meter)

    def _dead_letter_output(self, feeder: str, operator: Operator[Any]) -> DeadLetterOutput | None:
        """What takes the bad rows of an instance, when its node has a dead-letter sink."""
        name, rejects = self.analysis.pipeline[operator.context.name].dead_letters, operator.context.rejects
        if name is None or rejects is None:
            return None
        return DeadLetterOutput(feeder, rejects, self._step(name), self._rows)

    def _instance(self, built: PlannedNode, first: Operator[Any], number: int) -> Any:
        operator = type(first)(self.context(built.node, built.input_schema, number, built.instances))
        self.parts.operators[built.node.name].append(operator)
        return operator

    def _lane(self, built: PlannedNode, name: str, work: Any) -> Lane:
        return Lane(
            f"{built.node.type} {built.node.kind} '{name}'",
            work,
            rebatcher=Rebatcher(*built.operator.batching()),
            clock=self.clock,
            on_failure=lambda error: self.callbacks.on_failure(add_location(error, built.node)),
            queue_length=self.queue_length(built.node),
        )

    def _limit(self, built: PlannedNode, own: int | None) -> RowLimit:
        limit = RowLimit(own or self.row_limit, self.callbacks.on_limit, self.callbacks.on_first_rows)
        self.parts.limits[built.node.name] = limit
        return limit

    def _rows(self, lane: str, batch: pa.RecordBatch) -> Rows:
        return Rows(self.session, batches=[batch], producer=lane)


def _is_awaited(operator: SideOutput[Any]) -> bool:
    return isinstance(operator, LookupTable) and operator.blocks_until_filled


def _instance_name(built: PlannedNode, number: int) -> str:
    return built.node.name if built.instances == 1 else f"{built.node.name}[{number}]"
