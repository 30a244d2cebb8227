"""One walk down the graph finds the columns of every node and collects all errors; `--validate` ends here.

It is made twice with different knowledge: `check_without_spark` follows the columns as far as they are known while the
JVM starts, `analyse` learns the rest from Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from streamling.engine.dataflow.realtime import Delay
from streamling.engine.dataflow.rebatch import Rebatcher
from streamling.engine.dataflow.rows import Rows
from streamling.engine.dataflow.segment import job_for_each_batch
from streamling.engine.planning.execution_graph import ExecutionGraph
from streamling.engine.planning.planned import (
    Analysis,
    ContextFactory,
    NodeProblems,
    PlannedNode,
    ResolvedPipeline,
    instances_of,
    router_of,
)
from streamling.pipeline.error_locations import problem_from_error
from streamling.pipeline.keys import check_key_columns
from streamling.pipeline.model import Node
from streamling.pipeline.references import sql_problem
from streamling.plugins import rejects
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.side_outputs import SideOutput
from streamling.types.names import is_known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_without_spark(
    resolved: ResolvedPipeline,
    registry: Registry,
    context: ContextFactory,
    side_outputs: Mapping[str, SideOutput[Any]],
) -> Mapping[str, pa.Schema | None]:
    """Raise `InvalidPipeline` with every error that can be seen before Spark has started; otherwise return the columns
    of every node as far as they are known."""
    walk = _StaticWalk(resolved, registry, context, side_outputs)
    walk.visit_all()
    return walk.schemas


def analyse(
    resolved: ResolvedPipeline,
    session: SparkSession,
    registry: Registry,
    context: ContextFactory,
    side_outputs: Mapping[str, SideOutput[Any]],
) -> Analysis:
    """Make transforms and sinks, and learn their columns from Spark and from themselves. Raises `InvalidPipeline` with
    every error that the static check could not see."""
    walk = _SparkWalk(resolved, registry, context, side_outputs, session)
    walk.visit_all()
    return Analysis(resolved.pipeline, walk.nodes, side_outputs, walk.empty_frames.frames, session)


class _Walk(ABC):
    """Visits each node after its upstreams."""

    def __init__(
        self,
        resolved: ResolvedPipeline,
        registry: Registry,
        context: ContextFactory,
        side_outputs: Mapping[str, SideOutput[Any]],
    ) -> None:
        #: output columns; None where they are not known, also because of an error
        self.schemas: dict[str, pa.Schema | None] = {name: one.schema for name, one in resolved.nodes.items()}
        self._resolved = resolved
        self._pipeline = resolved.pipeline
        self._registry = registry
        self._context = context
        self._side_outputs = side_outputs
        self._problems = NodeProblems()

    @abstractmethod
    def _output(self, node: Node, kind: type[Operator[Any]], input_schema: pa.Schema | None) -> pa.Schema | None:
        """Return the output columns of ``node``, which ``kind`` runs; None when they cannot be known."""

    def visit_all(self) -> None:
        for node in self._pipeline:
            if node.name not in self.schemas:
                self._visit(node)
            schema = self.schemas[node.name]
            if schema is not None and (problem := check_key_columns(node, schema.names)) is not None:
                self._problems.add([problem])
        self._problems.raise_all()

    def _visit(self, node: Node) -> None:
        self.schemas[node.name] = None
        with self._problems.collect(node):
            kind = self._registry.operator(node)
            self.schemas[node.name] = self._output(node, kind, self._input_schema(node))

    def _input_schema(self, node: Node) -> pa.Schema | None:
        """Return the columns that arrive; None where they are not known."""
        if node.upstreams:
            return self.schemas[node.upstreams[0]]
        return rejects.DEAD_LETTER_SCHEMA if self._pipeline.rejecting_nodes(node.name) else pa.schema([])

    def _operator(self, node: Node, kind: type[Operator[Any]], input_schema: pa.Schema) -> Operator[Any]:
        """Return instance 0 of ``node``. Side outputs have been made before: other operators know them."""
        if node.name in self._side_outputs:
            return self._side_outputs[node.name]
        return kind(self._context(node, input_schema, 0, instances_of(node, kind)))


class _StaticWalk(_Walk):
    """Follows columns as far as they are known without Spark."""

    @cached_property
    def _realtime(self) -> Mapping[str, Sequence[str]]:
        return realtime_nodes(self._resolved)

    def _output(self, node: Node, kind: type[Operator[Any]], input_schema: pa.Schema | None) -> pa.Schema | None:
        known = input_schema is not None and all(map(is_known, input_schema))
        if not known and kind.needs_input_schema():
            return None
        operator = self._operator(node, kind, input_schema if known else pa.schema([]))
        if known:
            router_of(node, kind, input_schema)  # raises when rows cannot be routed
        for source in self._realtime.get(node.name, ()):
            delays = static_delays(node, operator)
            self._problems.add(problem_from_error(delay.error(source), node) for delay in delays)
        problems, schema = operator.static_check({upstream: self.schemas[upstream] for upstream in node.upstreams})
        self._problems.add(sql_problem(problem, str(node), node.value_location("sql")) for problem in problems)
        return schema


class _SparkWalk(_Walk):
    """Learns all columns; a node below one that failed is left out."""

    def __init__(
        self,
        resolved: ResolvedPipeline,
        registry: Registry,
        context: ContextFactory,
        side_outputs: Mapping[str, SideOutput[Any]],
        session: SparkSession,
    ) -> None:
        super().__init__(resolved, registry, context, side_outputs)
        self.nodes = dict(resolved.nodes)
        self.empty_frames = EmptyFrames(session, self.schemas)

    def _output(self, node: Node, kind: type[Operator[Any]], input_schema: pa.Schema | None) -> pa.Schema | None:
        if any(self.schemas[upstream] is None for upstream in node.upstreams):
            return None
        operator = self._operator(node, kind, input_schema)
        router_of(node, kind, input_schema)  # raises when rows cannot be routed
        schema = operator.analyse(NodeInputs(self.empty_frames, node, operator))
        schema = input_schema if schema is None else schema
        self.nodes[node.name] = PlannedNode(node, operator, input_schema, schema)
        return schema


#: makes a DataFrame from the session and the DataFrames of the upstreams, by node name
Plan = Callable[["SparkSession", Mapping[str, "DataFrame"]], "DataFrame"]


class Frames(Protocol):
    """DataFrames that represent the output of nodes."""

    def apply(self, node: Node, operator: Operator[Any], plan: Plan) -> DataFrame:
        """Return ``plan`` of ``operator`` over the upstreams of ``node``."""


class EmptyFrames:
    """An empty DataFrame for each node that a Spark plan reads, created when the first plan needs it."""

    def __init__(self, session: SparkSession, schemas: Mapping[str, pa.Schema | None]) -> None:
        self._session = session
        self._schemas = schemas
        self.frames: dict[str, DataFrame] = {}

    def apply(self, node: Node, operator: Operator[Any], plan: Plan) -> DataFrame:
        """Return ``plan`` over the upstreams of ``node``; errors of Spark are translated by ``operator``."""
        inputs = {upstream: self._frame(upstream) for upstream in node.upstreams}
        return Rows(self._session, lineage=((node, operator),)).run(lambda: plan(self._session, inputs))

    def _frame(self, name: str) -> DataFrame:
        if name not in self.frames:
            self.frames[name] = empty_frame(self._session, self._schemas[name])
        return self.frames[name]


class NodeInputs:
    """The inputs of one node."""

    def __init__(self, frames: Frames, node: Node, operator: Operator[Any]) -> None:
        self._frames = frames
        self._node = node
        self._operator = operator

    @property
    def names(self) -> Sequence[str]:
        return self._node.upstreams

    def apply(self, plan: Plan) -> DataFrame:
        return self._frames.apply(self._node, self._operator, plan)


def empty_frame(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """Return a frame without rows of ``schema``, as a local relation: two calls into the JVM, no job."""
    from pyspark.sql import DataFrame

    from streamling.types.spark import to_spark_schema

    jvm: Any = session._jvm
    structure = jvm.org.apache.spark.sql.types.DataType.fromJson(to_spark_schema(schema).json())
    return DataFrame(session._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), structure), session)


def realtime_nodes(resolved: ResolvedPipeline) -> Mapping[str, Sequence[str]]:
    """Return the nodes below real-time sources, with the names of these sources."""
    names = [name for name, source in resolved.sources.items() if source.is_realtime]
    below = {name: {node.name for node in resolved.pipeline.downstream(name)} for name in names}
    return {node.name: found for node in resolved.pipeline if (found := [n for n in names if node.name in below[n]])}


def static_delays(node: Node, operator: Operator[Any]) -> Iterator[Delay]:
    """Yield what rows would wait for at ``node``, as far as it can be seen without Spark."""
    if (job := job_for_each_batch(operator, len(node.upstreams))) is not None:
        yield Delay.by_job(node, job)
    if operator.execution is ExecutionMode.LANE and Rebatcher(*operator.batching()).holds_rows:
        yield Delay.by_batching(node)


def check_realtime(graph: ExecutionGraph) -> None:
    """Raise `InvalidPipeline` with every node of ``graph``, which has not been started, at which rows of a real-time
    source would wait."""
    problems = NodeProblems()
    for flow in graph.flows.values():
        problems.add(problem_from_error(each.error(flow.node.name), each.node) for each in flow.find_delays())
    problems.raise_all()
