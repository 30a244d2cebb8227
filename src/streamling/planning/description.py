"""What a pipeline will do, as plain data for people: flows, segments, where every node runs, what it remembers.

Made from a checked run; nothing is opened and no JVM is needed. `spark_plans` adds Spark's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.config import AppConfig
from streamling.config.values import mask_map, mask_url
from streamling.pipeline.model import Node, NodeKind, Pipeline
from streamling.pipeline.options import dump
from streamling.planning.analysis import Analysis, ResolvedPipeline, empty_frame, operator_class
from streamling.planning.instances import instances_of
from streamling.planning.placement import LocalPlacement, placement_for
from streamling.plugins.operators import AnySource, FrameSink, FrameTransform, Operator, Sink, StreamedSource, Transform
from streamling.plugins.registry import Registry
from streamling.plugins.side_outputs import SideOutput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ExecutionMode(StrEnum):
    """Where the work of a node happens."""

    PULLED = "pulled"  # a source that the engine asks for batches
    STREAMED = "streamed"  # a source that Spark Structured Streaming paces
    SPARK = "spark"  # part of a Spark plan
    LANE = "lane"  # a thread of this process with a bounded queue
    SIDE = "side"  # sees the rows of its upstream before they are emitted


@dataclass(frozen=True)
class ColumnDescription:
    name: str
    #: ``?`` when only Spark can tell
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
    #: None when only Spark can tell
    columns: tuple[ColumnDescription, ...] | None
    instances: int
    batch_size: int | None
    flush_interval: float | None
    #: of a source: whether it ends by itself
    bounded: bool | None
    state_keys: tuple[str, ...]
    #: fields as set in the file, secrets masked
    options: Mapping[str, Any]
    #: nodes whose bad rows a dead-letter sink takes
    bad_rows_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Segment:
    """Neighbours that run as one: one Spark plan, or Arrow functions that hand batches on."""

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
    segments: tuple[Segment, ...]
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
    """The whole picture of a checked pipeline; ``schemas`` are the columns as far as known, ``state`` says where the
    positions are kept."""
    pipeline = resolved.pipeline
    sources = {
        name: source for name, built in resolved.built.items() if isinstance(source := built.operator, AnySource)
    }
    local = isinstance(placement_for(config.spark.master), LocalPlacement)
    places = {
        node.name: _place(operator_class(node, registry), local or node.dead_letters is not None) for node in pipeline
    }
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
            # a source that Spark divides by itself runs as one operator with several streams
            max(instances_of(node, operator_class(node, registry)), node.options.instance_count),
        )
        for node in pipeline
    }
    return PlanDescription(
        file=pipeline.file,
        application_id=config.application_id,
        master=config.spark.master,
        placement="local" if local else "cluster",
        state=state,
        bounded=all(source.bounded for source in sources.values()),
        flows={node.name: tuple(_reached(pipeline, node.name)) for node in pipeline.sources},
        segments=segments,
        nodes=nodes,
    )


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


def _place(kind: type[Operator[Any]], local: bool) -> ExecutionMode:
    if issubclass(kind, AnySource):
        return ExecutionMode.STREAMED if issubclass(kind, StreamedSource) else ExecutionMode.PULLED
    if issubclass(kind, (FrameTransform, FrameSink)):
        return ExecutionMode.SPARK
    if issubclass(kind, SideOutput):
        return ExecutionMode.SIDE
    moves = issubclass(kind, Transform) or (issubclass(kind, Sink) and kind.distributable)
    return ExecutionMode.SPARK if moves and not local else ExecutionMode.LANE


def _node(
    node: Node,
    bad_rows_of: tuple[str, ...],
    place: ExecutionMode,
    segment: int | None,
    source: AnySource[Any] | None,
    schemas: Mapping[str, pa.Schema | None],
    instances: int,
) -> NodeDescription:
    # a sink takes what its upstream gives; its own entry is empty when a type is not known yet
    schema = schemas.get(node.upstreams[0] if node.kind is NodeKind.SINK and node.upstreams else node.name)
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
        options=_masked(dump(node.options)),
    )


def _column(column: pa.Field) -> ColumnDescription:
    unknown = (column.metadata or {}).get(b"streamling.type") == b"unknown"
    return ColumnDescription(column.name, "?" if unknown else str(column.type))


def _masked(value: Any) -> Any:
    """Typed secrets are masked already; plugins may take theirs as plain fields."""
    match value:
        case dict():
            covered = mask_map(value)
            # the name of a secret is no secret
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


def _segments(pipeline: Pipeline, places: Mapping[str, ExecutionMode]) -> tuple[Segment, ...]:
    """Neighbours of the same place. Sinks in lanes stand alone: nothing follows them."""
    groups: list[set[str]] = []
    for node in pipeline:
        if node.kind is NodeKind.SOURCE or (node.kind is NodeKind.SINK and places[node.name] is ExecutionMode.LANE):
            continue
        if places[node.name] is ExecutionMode.SIDE:
            continue
        near = {upstream for upstream in node.upstreams if places[upstream] is places[node.name]}
        joined = [group for group in groups if group & near]
        groups = [*(group for group in groups if not group & near), {node.name}.union(*joined)]
    order = {node.name: number for number, node in enumerate(pipeline)}
    sorted_groups = sorted((sorted(group, key=order.__getitem__) for group in groups), key=lambda g: order[g[0]])
    kinds = {ExecutionMode.SPARK: "spark", ExecutionMode.LANE: "arrow"}
    return tuple(
        Segment(number, kinds[places[names[0]]], tuple(names)) for number, names in enumerate(sorted_groups, start=1)
    )


# ── in Spark's words ─────────────────────────────────────────────────────────────────────────────────────────


def spark_plans(analysis: Analysis, segments: Sequence[Segment], master: str) -> dict[int, dict[str, str]]:
    """Spark's physical plan of every node whose rows leave a Spark segment, by segment and node."""
    plans: dict[int, dict[str, str]] = {}
    for segment in segments:
        if segment.kind == "spark":
            plans[segment.number] = dict(_segment_plans(analysis, segment, master))
    return {number: plan for number, plan in plans.items() if plan}


def _segment_plans(analysis: Analysis, segment: Segment, master: str) -> Iterator[tuple[str, str]]:
    placement, session = placement_for(master), analysis.session
    frames: dict[str, DataFrame] = {}
    inputs: dict[str, str] = {}
    for name in segment.nodes:
        built = analysis.built[name]
        operator = placement.place(built)
        if not isinstance(operator, FrameTransform):
            continue
        for upstream in built.node.upstreams:
            if upstream not in frames:
                frames[upstream] = _rows_of(session, analysis.built[upstream].schema)
                inputs[_first_column(frames[upstream])] = upstream
        frames[name] = operator.apply(session, {upstream: frames[upstream] for upstream in built.node.upstreams})
        followers = {node.name for node in analysis.pipeline.consumers(name) if node.kind is NodeKind.TRANSFORM}
        if not followers or not followers <= set(segment.nodes):
            yield name, _readable(frames[name]._jdf.queryExecution().executedPlan().toString(), inputs)


def _rows_of(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """Rows that Spark knows nothing about: a plan over an empty relation would be optimized away."""
    from pyspark.sql import DataFrame

    empty = empty_frame(session, schema)._jdf
    return DataFrame(session._jsparkSession.createDataFrame(empty.toJavaRDD(), empty.schema()), session)


def _first_column(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().output().head().toString())


def _readable(plan: str, inputs: Mapping[str, str]) -> str:
    """The plan without the numbers of columns, with the names of nodes where it begins."""

    def begin(found: re.Match[str]) -> str:
        return f"rows of {inputs.get(found[1], 'the upstream')}"

    named = re.sub(r"Scan ExistingRDD\[([^,\]]+)[^\]]*\]", begin, plan)
    return re.sub(r"#\d+L?", "", named).rstrip()
