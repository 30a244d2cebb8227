"""From a checked pipeline to operators with known schemas. Nothing runs yet; `--validate` ends here.

The first steps need no JVM and happen while one starts: `make_sources`, then `resolve_sources` asks them for their
schemas. `analyse` walks down the graph with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.dataflow.rows import Rows
from streamling.errors import InvalidPipeline, Problem, StreamlingError, error_context
from streamling.pipeline.error_locations import problem_from_error
from streamling.pipeline.keys import check_key_columns, with_primary_keys
from streamling.pipeline.model import Node, NodeKind, Pipeline
from streamling.planning.instances import instances_of, router_of
from streamling.plugins import rejects
from streamling.plugins.context import NodeContext
from streamling.plugins.operators import OP_COLUMN, AnySource, FrameTransform, Operator, Transform
from streamling.plugins.registry import Registry
from streamling.plugins.side_outputs import SideOutput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: makes the context of one instance: node, input schema, instance number, number of instances
ContextFactory = Callable[[Node, pa.Schema, int, int], NodeContext[Any]]

#: sources that are built at the same time: most of it is waiting for somebody's answer
_CONCURRENT_SOURCES = 8


@dataclass(frozen=True)
class PlannedNode:
    """A node with its operator (instance 0) and the columns it puts out; a sink puts out what it takes."""

    node: Node
    operator: Operator[Any]
    input_schema: pa.Schema
    schema: pa.Schema

    @property
    def instances(self) -> int:
        return self.operator.context.instances


@dataclass(frozen=True)
class ResolvedPipeline:
    """The pipeline with its sources made, their schemas and all primary keys known."""

    pipeline: Pipeline
    built: Mapping[str, PlannedNode]


@dataclass(frozen=True)
class Analysis:
    """Every node with operator and schema."""

    pipeline: Pipeline
    built: Mapping[str, PlannedNode]
    #: an empty DataFrame per node that Spark steps read, standing in for the absent inputs of a UNION ALL
    empty_frames: Mapping[str, DataFrame]
    #: where the functions that its statements call are registered
    session: SparkSession


def operator_class(node: Node, registry: Registry) -> type[Operator[Any]]:
    """The class that runs ``node``; an error for types this version only knows the fields of."""
    found = registry.get(node.kind, node.type)
    if found is None or found.operator is None:
        raise StreamlingError.user(f"{node}: the {node.type} {node.kind} cannot run in this version yet")
    return found.operator


def is_collected(pipeline: Pipeline, node: Node, registry: Registry) -> bool:
    """Whether rows of ``node`` come into this process, as bad ones do: not when Spark alone takes them down to the last
    sink."""
    return any(_brings_in(below, registry) for below in pipeline.downstream(node.name)) or _rejects(pipeline, node)


def _brings_in(consumer: Node, registry: Registry) -> bool:
    """Whether a node takes rows in this process."""
    found = registry.get(consumer.kind, consumer.type)
    return (
        found is None or found.operator is None or found.operator.runs_on != "spark" or bool(consumer.options.lookups())
    )


def _rejects(pipeline: Pipeline, node: Node) -> bool:
    return any(one.dead_letters is not None for one in (node, *pipeline.downstream(node.name)))


def is_spread(pipeline: Pipeline, node: Node) -> bool:
    """Whether rows of ``node`` go through a transform that Spark spreads over several tasks by key."""
    return any(
        below.kind is NodeKind.TRANSFORM and below.options.instance_count > 1
        for below in pipeline.downstream(node.name)
    )


def make_sources(pipeline: Pipeline, registry: Registry, context: ContextFactory) -> dict[str, AnySource[Any]]:
    """The source operators, before anything is asked of the outside."""
    sources, problems = {}, []
    for node in pipeline.sources:
        try:
            kind = operator_class(node, registry)
            operator = kind(context(node, pa.schema([]), 0, instances_of(node, kind)))
        except StreamlingError as error:
            if error.internal:
                raise
            problems.append(problem_from_error(error, node))
            continue
        assert isinstance(operator, AnySource), node
        sources[node.name] = operator
    if problems:
        raise InvalidPipeline(problems)
    return sources


def make_side_outputs(pipeline: Pipeline, registry: Registry, context: ContextFactory) -> dict[str, SideOutput[Any]]:
    """The side outputs, before anything is asked of the outside: other operators are given them."""
    side_outputs, problems = {}, []
    for node in pipeline.transforms:
        found = registry.get(node.kind, node.type)
        if found is None or found.operator is None or not issubclass(found.operator, SideOutput):
            continue
        try:
            side_outputs[node.name] = found.operator(context(node, pa.schema([]), 0, 1))
        except StreamlingError as error:
            if error.internal:
                raise
            problems.append(problem_from_error(error, node))
    if problems:
        raise InvalidPipeline(problems)
    return side_outputs


def resolve_sources(
    pipeline: Pipeline, sources: Mapping[str, AnySource[Any]], *, enforce_keys: bool
) -> ResolvedPipeline:
    """Ask all sources for their schemas, several at a time; failures are reported together, in name order."""
    with ThreadPoolExecutor(_CONCURRENT_SOURCES, thread_name_prefix="describe") as pool:
        futures = {node.name: pool.submit(_resolve_source, node, sources[node.name]) for node in pipeline.sources}
    errors = [(name, error) for name, future in sorted(futures.items()) if (error := future.exception())]
    if errors:
        _raise_all(pipeline, errors)
    inferred = {name: source.inferred_primary_key() for name, source in sources.items()}
    built = {name: future.result() for name, future in futures.items()}
    return ResolvedPipeline(with_primary_keys(pipeline, inferred, enforce=enforce_keys), built)


def analyse(
    resolved: ResolvedPipeline,
    session: SparkSession,
    registry: Registry,
    context: ContextFactory,
    side_outputs: Mapping[str, SideOutput[Any]],
) -> Analysis:
    """Make transforms and sinks in topological order and learn their schemas from Spark and from themselves."""
    walk = _Walk(resolved, session, registry, context, side_outputs)
    for node in resolved.pipeline:
        walk.visit(node)
    if walk.problems:
        raise InvalidPipeline(walk.problems)
    return Analysis(resolved.pipeline, walk.built, walk.empty_frames, session)


class _Walk:
    def __init__(
        self,
        resolved: ResolvedPipeline,
        session: SparkSession,
        registry: Registry,
        context: ContextFactory,
        side_outputs: Mapping[str, SideOutput[Any]],
    ) -> None:
        self.built = dict(resolved.built)
        self.empty_frames: dict[str, DataFrame] = {}
        self.problems: list[Problem] = []
        self._session = session
        self._registry = registry
        self._context = context
        self._sides = side_outputs

    def visit(self, node: Node) -> None:
        if node.kind is NodeKind.SOURCE:
            built = self.built[node.name]
        elif any(upstream not in self.built for upstream in node.upstreams):
            return  # an upstream failed; its own problem has been noted
        else:
            try:
                built = self.built[node.name] = self._build(node)
            except StreamlingError as error:
                if error.internal:
                    raise
                self.problems.append(problem_from_error(error, node))
                return
        problem = check_key_columns(node, built.schema.names)
        if problem is not None:
            self.problems.append(problem)

    def _build(self, node: Node) -> PlannedNode:
        if node.name in self._sides:
            return self._build_side(node, self._sides[node.name])
        input_schema = self.built[node.upstreams[0]].schema if node.upstreams else rejects.DEAD_LETTER_SCHEMA
        kind = operator_class(node, self._registry)
        operator = kind(self._context(node, input_schema, 0, instances_of(node, kind)))
        router_of(node, kind, input_schema)  # tells when rows cannot be placed
        if isinstance(operator, FrameTransform):
            schema = self._frame_schema(node, operator)
        elif isinstance(operator, Transform):
            schema = operator.output_schema()
        else:
            schema = input_schema
        return PlannedNode(node, operator, input_schema, schema)

    def _build_side(self, node: Node, side: SideOutput[Any]) -> PlannedNode:
        """A side output lets the rows of its upstream pass; one without an upstream sees none."""
        if not node.upstreams:
            return PlannedNode(node, side, pa.schema([]), pa.schema([]))
        inputs = self._empty_inputs(node)
        Rows(self._session, lineage=((node, side),)).run(lambda: side.select(self._session, inputs))
        schema = self.built[node.upstreams[0]].schema
        return PlannedNode(node, side, schema, schema)

    def _empty_inputs(self, node: Node) -> dict[str, DataFrame]:
        for upstream in node.upstreams:
            if upstream not in self.empty_frames:
                self.empty_frames[upstream] = empty_frame(self._session, self.built[upstream].schema)
        return {upstream: self.empty_frames[upstream] for upstream in node.upstreams}

    def _frame_schema(self, node: Node, operator: FrameTransform[Any]) -> pa.Schema:
        from streamling.types.spark import to_arrow_schema

        inputs = self._empty_inputs(node)
        frame = Rows(self._session, lineage=((node, operator),)).run(lambda: operator.apply(self._session, inputs))
        return to_arrow_schema(frame.schema)


def empty_frame(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """No rows of ``schema``, as a local relation: two calls into the JVM, no job."""
    from pyspark.sql import DataFrame

    from streamling.types.spark import to_spark_schema

    jvm: Any = session._jvm
    structure = jvm.org.apache.spark.sql.types.DataType.fromJson(to_spark_schema(schema).json())
    return DataFrame(session._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), structure), session)


def _resolve_source(node: Node, source: AnySource[Any]) -> PlannedNode:
    with error_context(str(node)):
        schema = source.schema()
    if OP_COLUMN not in schema.names:
        schema = schema.append(pa.field(OP_COLUMN, pa.string(), nullable=False))
    return PlannedNode(node, source, pa.schema([]), schema)


def _raise_all(pipeline: Pipeline, errors: list[tuple[str, BaseException]]) -> None:
    """User mistakes of all sources together; an internal error alone, the first by name."""
    problems = []
    for name, error in errors:
        if not isinstance(error, StreamlingError) or error.internal:
            raise error
        problems.append(problem_from_error(error, pipeline[name]))
    raise InvalidPipeline(problems)
