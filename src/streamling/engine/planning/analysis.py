"""One walk down the graph finds the columns of every node and collects all errors; `--validate` ends here.

It is made twice with different knowledge: `check_without_spark` follows the columns as far as they are known while the
JVM starts, `analyse` learns the rest from Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.engine.planning.empty_inputs import EmptyFrames, NodeInputs
from streamling.engine.planning.instances import instances_of, router_of
from streamling.engine.planning.planned import Analysis, ContextFactory, PlannedNode, ResolvedPipeline, operator_class
from streamling.engine.planning.problems import NodeProblems
from streamling.engine.planning.realtime import realtime_nodes, static_delays
from streamling.pipeline.error_locations import problem_from_error
from streamling.pipeline.keys import check_key_columns
from streamling.pipeline.model import Node
from streamling.pipeline.references import sql_problem
from streamling.plugins import rejects
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.side_outputs import SideOutput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        """The output columns of ``node``, which ``kind`` runs; None when they cannot be known."""

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
            kind = operator_class(node, self._registry)
            self.schemas[node.name] = self._output(node, kind, self._input_schema(node))

    def _input_schema(self, node: Node) -> pa.Schema | None:
        """The columns that arrive; None where they are not known."""
        if node.upstreams:
            return self.schemas[node.upstreams[0]]
        return rejects.DEAD_LETTER_SCHEMA if self._pipeline.rejecting_nodes(node.name) else pa.schema([])

    def _operator(self, node: Node, kind: type[Operator[Any]], input_schema: pa.Schema) -> Operator[Any]:
        """Instance 0 of ``node``. Side outputs have been made before: other operators know them."""
        if node.name in self._side_outputs:
            return self._side_outputs[node.name]
        return kind(self._context(node, input_schema, 0, instances_of(node, kind)))


class _StaticWalk(_Walk):
    """Follows columns as far as they are known without Spark."""

    @cached_property
    def _realtime(self) -> Mapping[str, Sequence[str]]:
        return realtime_nodes(self._resolved)

    def _output(self, node: Node, kind: type[Operator[Any]], input_schema: pa.Schema | None) -> pa.Schema | None:
        known = input_schema is not None and fully_known(input_schema)
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


def fully_known(schema: pa.Schema) -> bool:
    """False when only Spark knows the type of a column."""
    return not any((field.metadata or {}).get(b"streamling.type") == b"unknown" for field in schema)
