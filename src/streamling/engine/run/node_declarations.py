"""What the operator classes of a pipeline's nodes declare, before any of them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.engine.planning.connection_checks import NodeConnection
from streamling.engine.planning.placement import runs_on_executors
from streamling.pipeline.config import AppConfig
from streamling.pipeline.error_locations import node_errors
from streamling.pipeline.model import Node, Pipeline
from streamling.plugins.connections import ExternalPosition
from streamling.plugins.context import NodeContext
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.spark.master import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class NodeDeclarations:
    """The nodes with their operator classes."""

    pipeline: Pipeline
    config: AppConfig
    registry: Registry
    #: the context of an instance: node, input columns, number of the instance, number of instances
    context: Callable[[Node, pa.Schema, int, int], NodeContext[Any]]

    def __iter__(self) -> Iterator[tuple[Node, type[Operator[Any]]]]:
        for node in self.pipeline:
            yield node, self.registry.operator(node)

    @property
    def spark_packages(self) -> frozenset[str]:
        """Spark packages that the JVM has to be started with: those that the nodes need."""
        return frozenset[str]().union(*(kind.spark_packages(node.options) for node, kind in self))

    @property
    def needs_python_workers(self) -> bool:
        """Whether operators run in Python on the executors of a cluster."""
        return not is_local(self.config.spark.master) and any(runs_on_executors(node, kind) for node, kind in self)

    def connections(self, spark: Callable[[], SparkSession]) -> list[NodeConnection]:
        """Return what the nodes connect to. No connection is made yet; ``spark`` is for checks that need a session."""
        found = []
        for node, kind in self:
            with node_errors(node):
                named = kind.connections(self.context(node, pa.schema([]), 0, 1), spark)
                found += [NodeConnection(node.name, connection) for connection in named]
        return found

    def external_positions(self, spark: Callable[[], SparkSession], only: str | None) -> list[ExternalPosition]:
        """Return the positions that the nodes, or ``only`` one, store outside of the state backend."""
        found: list[ExternalPosition] = []
        for node, kind in self:
            if only in (None, node.name):
                found += kind.external_positions(self.context(node, pa.schema([]), 0, 1), spark)
        return found

    def queue_length(self, node: Node) -> int:
        """Return how many batches may wait in front of ``node``."""
        found, config = self.registry.get(node.kind, node.type), self.config
        own = config.plugin.explicit_value("channel_capacity") if found is not None and found.plugin else None
        return own or config.internal_buffer_size
