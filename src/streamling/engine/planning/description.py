"""What a pipeline will do, as plain data: flows, segments, where every node runs, its state keys.

Made from a checked run; nothing is opened and no JVM is needed. `spark_plans` adds Spark's plans, which takes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.engine.planning.analysis import NodeInputs, Plan, empty_frame
from streamling.engine.planning.placement import placement_for
from streamling.engine.planning.planned import Analysis, ResolvedPipeline, instances_of
from streamling.engine.planning.segments import plan_segments
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.values import mask_map, mask_url
from streamling.pipeline.model import Node, Pipeline
from streamling.pipeline.options import dump
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.sources import AnySource
from streamling.spark.master import is_local
from streamling.types.names import is_known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class ColumnDescription:
    name: str
    #: ``?`` if only Spark knows it
    type: str


@dataclass(frozen=True)
class NodeDescription:
    name: str
    kind: str
    type: str
    place: ExecutionMode
    #: number of the Spark or Arrow segment the node belongs to
    segment: int | None
    upstreams: tuple[str, ...]
    primary_key: tuple[str, ...]
    #: None if only Spark knows them
    columns: tuple[ColumnDescription, ...] | None
    instances: int
    batch_size: int | None
    flush_interval: float | None
    #: of a source: whether it has an end
    bounded: bool | None
    state_keys: tuple[str, ...]
    #: fields as set in the file, secrets masked
    options: Mapping[str, Any]
    #: nodes whose rejected rows a dead-letter sink takes
    bad_rows_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class SegmentDescription:
    """Adjacent nodes that run as one: one Spark plan, or Arrow functions that pass batches on."""

    number: int
    kind: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class PlanDescription:
    file: str
    application_id: str
    master: str
    #: ``local`` or ``cluster``
    placement: str
    state: str
    bounded: bool
    #: source → every node its rows can reach, in topological order
    flows: Mapping[str, tuple[str, ...]]
    segments: tuple[SegmentDescription, ...]
    nodes: Mapping[str, NodeDescription]
    #: segment number → node → Spark's physical plan up to that node
    spark_plans: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


def describe_plan(
    resolved: ResolvedPipeline,
    *,
    config: AppConfig,
    registry: Registry,
    schemas: Mapping[str, pa.Schema | None],
    state: str,
) -> PlanDescription:
    """Return the description of a checked pipeline; ``schemas`` are the columns as far as they are known, ``state``
    says where positions are stored."""
    pipeline = resolved.pipeline
    sources = resolved.sources
    placement = placement_for(config.spark.master)
    places = {node.name: placement.mode(node, registry.operator(node)) for node in pipeline}
    segments = _segments(pipeline, places)
    number_of = {name: segment.number for segment in segments for name in segment.nodes}
    nodes = {
        node.name: _node(
            node,
            tuple(each.name for each in pipeline.rejecting_nodes(node.name)),
            places[node.name],
            number_of.get(node.name),
            sources.get(node.name),
            schemas,
            # a source whose rows Spark divides runs as one operator with several streams
            max(instances_of(node, registry.operator(node)), node.options.instance_count),
        )
        for node in pipeline
    }
    return PlanDescription(
        file=pipeline.file,
        application_id=config.application_id,
        master=config.spark.master,
        placement="local" if is_local(config.spark.master) else "cluster",
        state=state,
        bounded=all(source.bounded for source in sources.values()),
        flows={node.name: tuple(_reached(pipeline, node.name)) for node in pipeline.sources},
        segments=segments,
        nodes=nodes,
    )


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


def _node(
    node: Node,
    bad_rows_of: tuple[str, ...],
    place: ExecutionMode,
    segment: int | None,
    source: AnySource[Any] | None,
    schemas: Mapping[str, pa.Schema | None],
    instances: int,
) -> NodeDescription:
    # a sink has the columns of its upstream; its own entry is None if a type is not known yet
    schema = schemas.get(node.name if node.kind.has_output or not node.upstreams else node.upstreams[0])
    return NodeDescription(
        name=node.name,
        kind=node.kind.value,
        type=node.type,
        place=place,
        segment=segment,
        upstreams=node.upstreams,
        bad_rows_of=bad_rows_of,
        primary_key=node.primary_key,
        columns=None if schema is None else tuple(map(_column, schema)),
        instances=instances,
        batch_size=node.options.rows_per_batch,
        flush_interval=node.options.flush_interval,
        bounded=None if source is None else source.bounded,
        state_keys=() if source is None else tuple(source.state_keys()),
        options=shown_options(node),
    )


def _column(column: pa.Field) -> ColumnDescription:
    return ColumnDescription(column.name, str(column.type) if is_known(column) else "?")


def shown_options(node: Node) -> Any:
    """Return the fields of ``node`` as set in the file, without secrets."""
    return _masked(dump(node.options))


def _masked(value: Any) -> Any:
    """Mask secrets. Typed ones are already masked; plugins may have secrets in plain fields."""
    match value:
        case dict():
            covered = mask_map(value)
            # the name of a secret is not secret
            return {key: _masked(value[key] if key.endswith("_name") else part) for key, part in covered.items()}
        case list():
            return [_masked(part) for part in value]
        case str():
            return mask_url(value)
    return value


# ── the graph ────────────────────────────────────────────────────────────────────────────────────────────────


def _reached(pipeline: Pipeline, source: str) -> Iterator[str]:
    reached = {source}
    for node in pipeline:
        above = {*node.upstreams, *(each.name for each in pipeline.rejecting_nodes(node.name))}
        if node.name in reached or reached & above:
            reached.add(node.name)
            yield node.name


def _segments(pipeline: Pipeline, places: Mapping[str, ExecutionMode]) -> tuple[SegmentDescription, ...]:
    """Return what Spark runs of each segment of the engine, and the transforms in adjacent lanes. Segments that meet in
    a UNION ALL are one. Sinks in lanes are in none: nothing follows them."""
    planned, kinds = plan_segments(pipeline, places), {ExecutionMode.SPARK: "spark", ExecutionMode.LANE: "arrow"}
    groups: list[set[str]] = []
    for segment in planned.values():
        producer, below = segment.producer.name, {node.name for node in segment.nodes}
        groups = _joined(groups, {name for name in below if places[name] is ExecutionMode.SPARK})
        if places[producer] is ExecutionMode.LANE:
            next_lanes = {node.name for node in pipeline.consumers(producer)} & planned.keys()
            groups = _joined(groups, {producer, *next_lanes})
    order = {node.name: number for number, node in enumerate(pipeline)}
    sorted_groups = sorted((sorted(group, key=order.__getitem__) for group in groups), key=lambda g: order[g[0]])
    return tuple(
        SegmentDescription(number, kinds[places[names[0]]], tuple(names))
        for number, names in enumerate(sorted_groups, start=1)
    )


def _joined(groups: Sequence[set[str]], group: set[str]) -> list[set[str]]:
    """Return ``groups`` with another one, which is joined with those that share a node with it."""
    apart = [each for each in groups if not each & group]
    joined = group.union(*(each for each in groups if each & group))
    return [*apart, joined] if joined else apart


def spark_plans(analysis: Analysis, segments: Sequence[SegmentDescription], master: str) -> dict[int, dict[str, str]]:
    """Return Spark's physical plan of every node whose rows leave a Spark segment, by segment and node."""
    plans: dict[int, dict[str, str]] = {}
    for segment in segments:
        if segment.kind == "spark":
            plans[segment.number] = dict(_segment_plans(analysis, segment, master))
    return {number: plan for number, plan in plans.items() if plan}


def _segment_plans(analysis: Analysis, segment: SegmentDescription, master: str) -> Iterator[tuple[str, str]]:
    placement, plans = placement_for(master), _SegmentFrames(analysis)
    for name in segment.nodes:
        planned = analysis.nodes[name]
        operator = placement.place(planned)
        operator.analyse(NodeInputs(plans, planned.node, operator))
        if name not in plans.frames:
            continue  # a sink: Spark writes what the plan above it computes
        followers = {node.name for node in analysis.pipeline.consumers(name) if node.kind.has_output}
        if not followers or not followers <= set(segment.nodes):
            plan = plans.frames[name]._jdf.queryExecution().executedPlan().toString()
            yield name, _readable(plan, plans.names_by_column)


class _SegmentFrames:
    """The plans of the nodes of a segment, each over the plans of its upstreams."""

    def __init__(self, analysis: Analysis) -> None:
        self.frames: dict[str, DataFrame] = {}
        #: first column of a DataFrame that represents a node outside of the segment → name of the node
        self.names_by_column: dict[str, str] = {}
        self._analysis = analysis

    def apply(self, node: Node, operator: Operator[Any], plan: Plan) -> DataFrame:
        session = self._analysis.session
        for upstream in node.upstreams:
            if upstream not in self.frames:
                self.frames[upstream] = _rows_of(session, self._analysis.nodes[upstream].schema)
                self.names_by_column[_first_column(self.frames[upstream])] = upstream
        self.frames[node.name] = plan(session, {upstream: self.frames[upstream] for upstream in node.upstreams})
        return self.frames[node.name]


def _rows_of(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """Return the rows that Spark cannot look into: a plan over an empty relation would be optimized away."""
    from pyspark.sql import DataFrame

    empty = empty_frame(session, schema)._jdf
    return DataFrame(session._jsparkSession.createDataFrame(empty.toJavaRDD(), empty.schema()), session)


def _first_column(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().output().head().toString())


def _readable(plan: str, inputs: Mapping[str, str]) -> str:
    """Return the plan without column numbers, and with the names of the nodes that it reads."""

    def begin(found: re.Match[str]) -> str:
        return f"rows of {inputs.get(found[1], 'the upstream')}"

    named = re.sub(r"Scan ExistingRDD\[([^,\]]+)[^\]]*\]", begin, plan)
    return re.sub(r"#\d+L?", "", named).rstrip()
