"""The results of planning: nodes with their operators and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.pipeline.model import Node, Pipeline
from streamling.plugins.context import NodeContext
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
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


def operator_class(node: Node, registry: Registry) -> type[Operator[Any]]:
    """The class that runs ``node``; an error for types of which this version knows only the fields."""
    operator = registry.operator(node.kind, node.type)
    if operator is None:
        raise StreamlingError.user(f"the {node.type} {node.kind} cannot run in this version yet")
    return operator
