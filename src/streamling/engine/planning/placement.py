"""Decides where Arrow operators run; the operators do not know.

On a local master they run in lanes of this process: no copy to a Python worker, 20 ms less per batch. On a
cluster they run on the executors, wrapped so that Spark sees them as part of its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from streamling.engine.dataflow.schema_changes import InputSchemaTracker, report_dropped_columns
from streamling.engine.planning.executor_work import DELIVERY, on_executor
from streamling.engine.planning.planned import PlannedNode
from streamling.errors import StreamlingError
from streamling.pipeline.model import Node, NodeKind, Pipeline
from streamling.plugins.delivery import Delivery
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import FrameSink, Sink
from streamling.plugins.streams import NeedsJob
from streamling.plugins.transforms import FrameTransform, Transform
from streamling.spark.arrow_map import map_in_arrow
from streamling.spark.master import is_local
from streamling.spark.python_errors import from_executor_error
from streamling.spark.sql_text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.spark.arrow_map import ArrowMap


#: keeps the order of rows through a shuffle
_ORDER = "__streamling_order"


class Placement(Protocol):
    def mode(self, node: Node, kind: type[Operator[Any]]) -> ExecutionMode:
        """Return how the engine runs ``node``, whose operator is a ``kind``."""

    def place(self, planned: PlannedNode) -> Operator[Any]:
        """Return the operator that the engine runs for a transform or sink."""


class LocalPlacement:
    """Everything runs in this process."""

    def mode(self, node: Node, kind: type[Operator[Any]]) -> ExecutionMode:
        return kind.execution

    def place(self, planned: PlannedNode) -> Operator[Any]:
        return planned.operator


class ClusterPlacement:
    """Operators that are `distributable` run on the executors, except those with a dead-letter sink: it receives rows
    from this process."""

    def mode(self, node: Node, kind: type[Operator[Any]]) -> ExecutionMode:
        return ExecutionMode.SPARK if runs_on_executors(node, kind) else kind.execution

    def place(self, planned: PlannedNode) -> Operator[Any]:
        operator = planned.operator
        if not runs_on_executors(planned.node, type(operator)):
            return operator
        return _ON_EXECUTORS[planned.node.kind](operator, planned)


def runs_on_executors(node: Node, kind: type[Operator[Any]]) -> bool:
    """Return whether Python workers of a cluster run ``node``."""
    return kind.distributable and node.dead_letters is None


def placement_for(master: str) -> Placement:
    """Return the placement for ``master``: a local one runs on this machine, any other is a cluster."""
    return LocalPlacement() if is_local(master) else ClusterPlacement()


class ExecutorTransform(FrameTransform[Any]):
    """An Arrow transform as a step of Spark's plan: one instance per partition."""

    def __init__(self, operator: Transform[Any], planned: PlannedNode) -> None:
        super().__init__(operator.context)
        self._operator = operator
        self._planned = planned
        self._function = on_executor(planned)
        #: functions and output schemas for other input columns than the declared ones, by input schema
        self._others: dict[str, tuple[ArrowMap, pa.Schema]] = {}

    def apply(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        from streamling.types.spark import to_spark_schema

        frame = inputs[self.context.options.upstreams()[0]]
        function, schema = self._for_columns(frame)
        return map_in_arrow(frame, function, to_spark_schema(schema))

    def _for_columns(self, frame: DataFrame) -> tuple[ArrowMap, pa.Schema]:
        from streamling.types.spark import to_arrow_schema

        columns = InputSchemaTracker(self._planned.input_schema)
        if not columns.detect_change(to_arrow_schema(frame.schema)):
            return self._function, self._planned.schema
        key = str(columns.schema)
        if key not in self._others:
            operator = self._operator.with_input_schema(columns.schema)
            output = operator.output_schema()
            report_dropped_columns(self._operator.context, columns.schema, output)
            grown = replace(self._planned, operator=operator, input_schema=columns.schema, schema=output)
            self._others[key] = on_executor(grown), output
        return self._others[key]

    def translate_error(self, error: Exception) -> StreamlingError | None:
        return from_executor_error(error, self.context.name) or self._operator.translate_error(error)


class ExecutorSink(FrameSink[Any]):
    """A sink written by the executors: rows of one key go to one instance, which flushes before it ends."""

    counts_rows: ClassVar[bool] = True

    def __init__(self, operator: Sink[Any], planned: PlannedNode) -> None:
        super().__init__(operator.context)
        self._operator = operator
        self._function = on_executor(planned)
        self._key = planned.node.primary_key
        #: as many as `parallelism` says, otherwise one for each core
        self._tasks = planned.instances if planned.instances > 1 else None

    def needs_job(self, columns: pa.Schema) -> NeedsJob:
        return NeedsJob("it runs in Python on the executors", "run on a local master (spark.master)")

    def write_frame(self, frame: DataFrame) -> int:
        if self._key:
            frame = repartition_by_key(frame, self._key, self._tasks)
        try:
            tasks = map_in_arrow(frame, self._function, ", ".join(f"{name} long" for name in DELIVERY)).collect()
        except Exception as error:
            failure = from_executor_error(error, self.context.name) or self._operator.translate_error(error)
            if failure is None:
                raise  # about something above this sink
            raise failure  # noqa: B904 - its cause is the one on the executor
        delivery = sum((Delivery(*task) for task in tasks), Delivery())
        self.context.deliveries.add(delivery)
        return delivery.rows

    def finalized(self, epoch: int) -> None:
        self._operator.finalized(epoch)


def repartition_by_key(frame: DataFrame, key: Sequence[str], tasks: int | None = None) -> DataFrame:
    """Return the rows of one key on one executor, in source order: a shuffle alone delivers them in any order, but the
    last operation on a key has to win. Without ``tasks``, one for each core: in a stream Spark would use 200."""
    from pyspark.sql import functions as f

    numbered = frame.withColumn(_ORDER, f.monotonically_increasing_id())
    by_key = numbered.repartition(
        tasks or frame.sparkSession.sparkContext.defaultParallelism, *(f.col(quoted(name)) for name in key)
    )
    return by_key.sortWithinPartitions(_ORDER).drop(_ORDER)


#: the operator that Spark sees in the driver, by the kind of the node: of the Arrow operator and its node
_ON_EXECUTORS: Mapping[NodeKind, Callable[[Any, PlannedNode], Operator[Any]]] = {
    NodeKind.TRANSFORM: ExecutorTransform,
    NodeKind.SINK: ExecutorSink,
}


def is_collected(pipeline: Pipeline, node: Node, registry: Registry) -> bool:
    """Return whether rows of ``node`` are loaded into this process, as rejected ones are. They are not when Spark alone
    processes them down to the last sink."""
    below = list(pipeline.downstream(node.name))
    if any(one.dead_letters is not None for one in (node, *below)):
        return True
    return any(_collects(consumer, registry) for consumer in below)


def _collects(consumer: Node, registry: Registry) -> bool:
    operator = registry.operator(consumer)
    return operator.execution is not ExecutionMode.SPARK or bool(consumer.options.lookups())


def is_spread(pipeline: Pipeline, node: Node) -> bool:
    """Return whether rows of ``node`` pass through a transform that Spark spreads over several tasks by key."""
    return any(below.kind.has_output and below.options.instance_count > 1 for below in pipeline.downstream(node.name))
