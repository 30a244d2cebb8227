"""Checks of a pipeline without running it: first what needs no JVM, then Spark's own analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.pipeline.error_locations import problem_from_error
from streamling.pipeline.keys import check_key_columns
from streamling.pipeline.model import Node, NodeKind
from streamling.pipeline.references import sql_problem
from streamling.planning.analysis import ContextFactory, ResolvedPipeline, operator_class
from streamling.planning.instances import instances_of, router_of
from streamling.plugins import rejects
from streamling.plugins.operators import FrameTransform, Operator, Transform
from streamling.plugins.registry import Registry
from streamling.plugins.side_outputs import SideOutput


def check_without_spark(
    resolved: ResolvedPipeline, registry: Registry, context: ContextFactory
) -> Mapping[str, pa.Schema | None]:
    """Raise `InvalidPipeline` with every mistake that can be seen before a JVM is there; otherwise the columns of
    every node as far as they are known."""
    walk = _StaticWalk(resolved, registry, context)
    for node in resolved.pipeline:
        walk.visit(node)
    if walk.problems:
        raise InvalidPipeline(walk.problems)
    return walk.schemas


class _StaticWalk:
    """Follows columns down the graph as far as they are known."""

    def __init__(self, resolved: ResolvedPipeline, registry: Registry, context: ContextFactory) -> None:
        self.problems: list[Problem] = []
        self.schemas: dict[str, pa.Schema | None] = {name: built.schema for name, built in resolved.built.items()}
        self._registry = registry
        self._context = context

    def visit(self, node: Node) -> None:
        if node.kind is not NodeKind.SOURCE:
            try:
                self.schemas[node.name] = self._output(node)
            except StreamlingError as error:
                if error.internal:
                    raise
                self.schemas[node.name] = None
                self.problems.append(problem_from_error(error, node))
        schema = self.schemas[node.name]
        problem = None if schema is None else check_key_columns(node, schema.names)
        if problem is not None:
            self.problems.append(problem)

    def _output(self, node: Node) -> pa.Schema | None:
        kind = operator_class(node, self._registry)
        inputs = {upstream: self.schemas[upstream] for upstream in node.upstreams}
        if issubclass(kind, FrameTransform):
            return self._frame(node, kind, inputs)
        if issubclass(kind, SideOutput):
            return self._side(node, kind, inputs)
        first = inputs[node.upstreams[0]] if node.upstreams else rejects.DEAD_LETTER_SCHEMA
        if first is None or not fully_known(first):
            self._check_alone(node, kind)
            return None
        operator = kind(self._context(node, first, 0, instances_of(node, kind)))
        router_of(node, kind, first)
        if not isinstance(operator, Transform):
            return first
        operator.check()
        return operator.output_schema()

    def _check_alone(self, node: Node, kind: type[Operator[Any]]) -> None:
        """What can be said about a node whose input is not known; most have nothing to say then."""
        if issubclass(kind, Transform) and kind.check is not Transform.check:
            kind(self._context(node, pa.schema([]), 0, instances_of(node, kind))).check()

    def _side(
        self, node: Node, kind: type[SideOutput[Any]], inputs: Mapping[str, pa.Schema | None]
    ) -> pa.Schema | None:
        problems = kind(self._context(node, pa.schema([]), 0, 1)).static_check(inputs)
        self.problems += [sql_problem(problem, str(node), node.value_location("sql")) for problem in problems]
        return next(iter(inputs.values()), pa.schema([]))

    def _frame(
        self, node: Node, kind: type[FrameTransform[Any]], inputs: Mapping[str, pa.Schema | None]
    ) -> pa.Schema | None:
        operator = kind(self._context(node, pa.schema([]), 0, 1))
        problems, schema = operator.static_check(inputs)
        self.problems += [sql_problem(problem, str(node), node.value_location("sql")) for problem in problems]
        return schema


def fully_known(schema: pa.Schema) -> bool:
    """False when a column's type is one that only Spark can tell."""
    return not any((field.metadata or {}).get(b"streamling.type") == b"unknown" for field in schema)
