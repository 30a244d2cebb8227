"""From an analysis to the running parts: lanes, sinks that Spark writes, and flows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streamling.clock import Clock
from streamling.engine.dataflow.dead_letters import DeadLetterOutput
from streamling.engine.dataflow.events import Events
from streamling.engine.dataflow.flow import Flow, PolledFlow, SourceInstance
from streamling.engine.dataflow.frame_sink import FrameSinkNode
from streamling.engine.dataflow.lane import QUEUE_LENGTH, Lane, Work
from streamling.engine.dataflow.lanes import Lanes
from streamling.engine.dataflow.limit import RowLimit
from streamling.engine.dataflow.meter import NodeMeter, SparkCounting
from streamling.engine.dataflow.rebatch import Rebatcher
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.engine.dataflow.rows import Rows
from streamling.engine.dataflow.segment import Consumer, Segment, SegmentNode, SqlNode
from streamling.engine.dataflow.side_outputs import SideOutputNode
from streamling.engine.dataflow.streamed_flow import StreamedFlow
from streamling.engine.dataflow.table_gate import TableFeed, TableGate, awaited_tables
from streamling.engine.dataflow.work import SinkWork, TransformWork
from streamling.engine.planning.execution_graph import ExecutionGraph
from streamling.engine.planning.placement import Placement
from streamling.engine.planning.planned import Analysis, ContextFactory, PlannedNode, router_of
from streamling.engine.planning.segments import plan_segments
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
    events: Events
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
    _consumers: dict[str, Consumer] = field(default_factory=dict)
    _meters: dict[str, NodeMeter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {name: type(planned.operator) for name, planned in self.analysis.nodes.items()}
        modes = {node.name: self.placement.mode(node, kinds[node.name]) for node in self.analysis.pipeline}
        self._segments = plan_segments(self.analysis.pipeline, modes)

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

    def _flow(self, planned: PlannedNode, source: Operator[Any], name: str) -> Flow[Any]:
        node = planned.node
        segment = Segment(self._segment_root(node), self._dead_letter_output(name, source))
        more = self.session, segment, self.events, self.observer.activities[node.name]
        match source:
            case StreamedSource():
                return StreamedFlow(SourceInstance(name, node, source, planned.schema), *more)
            case Source():
                return PolledFlow(SourceInstance(name, node, source, planned.schema), *more)
        raise StreamlingError(f"{node}: {type(source).__name__} is neither a Source nor a StreamedSource")

    def _add_gates(self) -> None:
        """Hold flows back whose rows look values up in tables that other flows fill."""
        tables = [name for name, side in self.graph.side_outputs.items() if side.operator.blocks_until_filled]
        for source, feeds in awaited_tables(self.analysis.pipeline, tables).items():
            waits = [
                TableFeed(self.graph.side_outputs[table], self._flows_of(feeders)) for table, feeders in feeds.items()
            ]
            for feed in waits:
                for flow in feed.flows:
                    flow.watch(self.events.request_checkpoint)
            for flow in self._flows_of({source}):
                flow.gate = TableGate(flow, waits)

    def _flows_of(self, sources: Collection[str]) -> list[Flow[Any]]:
        return [flow for flow in self.graph.flows.values() if flow.node.name in sources]

    # ── segments ─────────────────────────────────────────────────────────────────────────────────────────────

    def _segment_root(self, producer: Node) -> SegmentNode:
        """Make the nodes of a segment, and return its producer. Segments that meet in a node share it."""
        for node in self._segments[producer.name].nodes:
            self._consumer(node.name)
        return SegmentNode(producer, *self._below(producer.name))

    def _below(self, name: str) -> tuple[list[Consumer], list[SideOutputNode], NodeMeter, SparkCounting]:
        """Return what takes and measures the rows of a node."""
        names = [node.name for node in self.analysis.pipeline.consumers(name)]
        sides = [self.graph.side_outputs[each] for each in names if each in self.graph.side_outputs]
        consumers = [self._consumers[each] for each in names if each not in self.graph.side_outputs]
        return consumers, sides, self._meter(name), self.counting

    def _consumer(self, name: str) -> Consumer:
        """Return what runs a transform or sink; its consumers have been made before."""
        if name not in self._consumers:
            self._consumers[name] = self._new_consumer(self.analysis.nodes[name])
        return self._consumers[name]

    def _new_consumer(self, planned: PlannedNode) -> Consumer:
        operator = self.placement.place(planned)
        self.graph.operators[planned.node.name] = [operator]
        match operator:
            case FrameTransform():
                return self._sql_node(planned, operator)
            case FrameSink():
                return self._frame_sink(planned, operator)
            case Transform():
                segment = Segment(self._segment_root(planned.node))
                return self._lanes(planned, operator, self._transform_work(planned, segment), segment)
            case Sink():
                return self._lanes(planned, operator, self._sink_work(planned, operator))
        raise StreamlingError(f"{planned.node}: {type(operator).__name__} is neither a transform nor a sink")

    def _sql_node(self, planned: PlannedNode, operator: FrameTransform[Any]) -> SqlNode:
        node, empty_frames = planned.node, self.analysis.empty_frames
        empty = {name: Rows(self.session, frame=empty_frames[name]) for name in node.upstreams if name in empty_frames}
        return SqlNode(node, operator, empty, *self._below(node.name))

    def _frame_sink(self, planned: PlannedNode, operator: FrameSink[Any]) -> FrameSinkNode:
        sink = FrameSinkNode(planned.node, operator, self._limit(None), self._meter(planned.node.name), self.events)
        self.graph.frame_sinks.append(sink)
        self.graph.sinks.append(planned.node.name)
        return sink

    def _add_side_output(self, node: Node, operator: SideOutput[Any]) -> None:
        self.graph.side_outputs[node.name] = SideOutputNode(node, operator, self.events)
        self.graph.operators[node.name] = [operator]
        if node.upstreams:
            self.graph.sinks.append(node.name)

    # ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────

    def _lanes(
        self, planned: PlannedNode, first: Operator[Any], make_work: WorkFactory, segment: Segment | None = None
    ) -> Lanes:
        node, instances = planned.node, planned.instances
        lanes = []
        for number in range(instances):
            operator = first if number == 0 else self._instance(planned, first, number)
            name = _instance_name(planned, number)
            dead_letters = self._dead_letter_output(name, operator)
            work = make_work(name, operator, dead_letters is not None)
            lanes.append(self._lane(planned, number, work, dead_letters))
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
        return Lanes(node, lanes, router, self._meter(node.name), segment)

    def _transform_work(self, planned: PlannedNode, segment: Segment) -> WorkFactory:
        meter, session = self._meter(planned.node.name), self.session

        def work(lane: str, transform: Transform[Any], rejects: bool) -> Work:
            return TransformWork(lane, transform, planned.schema, session, segment, meter, rejects=rejects)

        return work

    def _sink_work(self, planned: PlannedNode, first: Sink[Any]) -> WorkFactory:
        limit, meter = self._limit(first.row_limit), self._meter(planned.node.name)

        def work(lane: str, sink: Sink[Any], rejects: bool) -> Work:
            self.graph.sinks.append(lane)
            return SinkWork(lane, sink, limit, meter, self.events, rejects=rejects)

        return work

    def _lane(self, planned: PlannedNode, number: int, work: Work, dead_letters: DeadLetterOutput | None) -> Lane:
        return Lane(
            replace(planned.node.label, instance=number if planned.instances > 1 else None),
            work,
            rebatcher=Rebatcher(*planned.operator.batching()),
            clock=self.clock,
            activity=self.observer.activities[planned.node.name],
            on_failure=lambda error: self.events.on_failure(add_location(error, planned.node)),
            markers=self.observer.epochs.markers_of(_instance_name(planned, number)),
            dead_letters=dead_letters,
            queue_length=self.queue_length(planned.node),
            own_thread=planned.operator.own_thread,
        )

    # ── what the parts share ─────────────────────────────────────────────────────────────────────────────────

    def _instance(self, planned: PlannedNode, first: Operator[Any], number: int) -> Operator[Any]:
        operator = type(first)(self.context(planned.node, planned.input_schema, number, planned.instances))
        self.graph.operators[planned.node.name].append(operator)
        return operator

    def _dead_letter_output(self, feeder: str, operator: Operator[Any]) -> DeadLetterOutput | None:
        """Return what takes the rejected rows of an instance; None if its node has no dead-letter sink."""
        name, rejected = self.analysis.pipeline[operator.context.name].dead_letters, operator.context.rejected_rows
        if name is None or rejected is None:
            return None
        node, sink, recent = operator.context.name, self._consumer(name), self.observer.dead_letters
        return DeadLetterOutput(feeder, node, rejected, sink, self.session, recent, self._meter(node))

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
        return RowLimit(row_limit or self.row_limit, self.events.on_limit, self.events.on_first_rows)


def _instance_name(planned: PlannedNode, number: int) -> str:
    return planned.node.name if planned.instances == 1 else f"{planned.node.name}[{number}]"
