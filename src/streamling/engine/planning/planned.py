"""The results of planning: nodes with their operators and columns, and how many instances of each run.

Errors of several nodes are collected, so that they are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.engine.dataflow.lanes import Router
from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.pipeline.error_locations import problem_from_error
from streamling.pipeline.model import Node, Pipeline
from streamling.pipeline.options import ParallelOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.operators import Operator
from streamling.plugins.partitioning import ByColumns, ByPrimaryKey, RoundRobin
from streamling.plugins.side_outputs import SideOutput
from streamling.plugins.sources import AnySource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: makes the context of one instance: node, input schema, instance number, number of instances
ContextFactory = Callable[[Node, pa.Schema, int, int], NodeContext[Any]]


@dataclass(frozen=True)
class PlannedNode:
    """A node with its operator (instance 0) and its output columns; those of a sink are the ones it takes."""

    node: Node
    operator: Operator[Any]
    input_schema: pa.Schema
    schema: pa.Schema

    @property
    def instances(self) -> int:
        return self.operator.context.instances


@dataclass(frozen=True)
class ResolvedPipeline:
    """The pipeline with all primary keys, its sources and their columns."""

    pipeline: Pipeline
    sources: Mapping[str, AnySource[Any]]
    #: the source nodes
    nodes: Mapping[str, PlannedNode]


@dataclass(frozen=True)
class Analysis:
    """The pipeline with the operators and columns of all nodes."""

    pipeline: Pipeline
    nodes: Mapping[str, PlannedNode]
    side_outputs: Mapping[str, SideOutput[Any]]
    #: an empty DataFrame for each node that Spark steps read; it replaces the absent inputs of a UNION ALL
    empty_frames: Mapping[str, DataFrame]
    #: the session in which the functions that SQL statements call are registered
    session: SparkSession


def instances_of(node: Node, operator: type[Operator[Any]]) -> int:
    """Return the number of instances of ``node``: as the operator class declares; otherwise ``parallelism``, or one."""
    declared = operator.partitioning(node.options)
    if declared is None:
        return node.options.instance_count if operator.scales_with_parallelism else 1
    return declared.count(node.options.parallelism if isinstance(node.options, ParallelOptions) else None)


def router_of(
    node: Node, operator: type[Operator[Any]], input_schema: pa.Schema, upstream_key: tuple[str, ...] = ()
) -> Router:
    """Return what divides the rows of ``node`` among its instances. If the node itself makes the columns of its key,
    they are not in its input: then the key of its upstream is used."""
    declared = operator.partitioning(node.options)
    instances = instances_of(node, operator)
    match declared.routing if declared else ByPrimaryKey():
        case ByColumns(columns):
            return Router(instances, _known(columns, input_schema))
        case RoundRobin():
            return Router(instances)
        case ByPrimaryKey():
            available = set(input_schema.names)
            return Router(instances, node.primary_key if available.issuperset(node.primary_key) else upstream_key)


def _known(columns: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise StreamlingError.user(
            f"its rows are routed by the column '{missing[0]}', which is not in its input",
            remedy=f"select it upstream; available columns: {', '.join(schema.names)}",
        )
    return columns


class NodeProblems:
    """Collects errors of the user; an internal error is raised immediately."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    @contextmanager
    def collect(self, node: Node) -> Iterator[None]:
        """Note a user's error of ``node`` that is raised inside the block."""
        try:
            yield
        except StreamlingError as error:
            if error.internal:
                raise
            self._problems.append(problem_from_error(error, node))

    def add(self, problems: Iterable[Problem]) -> None:
        self._problems += problems

    def raise_all(self) -> None:
        """Raise `InvalidPipeline` if there are any."""
        if self._problems:
            raise InvalidPipeline(self._problems)
