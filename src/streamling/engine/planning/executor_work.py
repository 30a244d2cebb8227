"""Runs Arrow operators in the Python workers of Spark's executors: one instance per partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from streamling.engine.dataflow.ordered_results import OrderedResults
from streamling.engine.dataflow.rebatch import Rebatcher
from streamling.engine.dataflow.rows import check_columns
from streamling.engine.planning.planned import PlannedNode
from streamling.errors import NodeLabel
from streamling.pipeline.model import NodeKind
from streamling.plugins.context import Metrics, NodeContext, always_ready, ignore_stop
from streamling.plugins.delivery import Deliveries, Delivery
from streamling.plugins.operators import Operator
from streamling.plugins.placeholders import NoopMetrics, UnavailableState, UnavailableTables
from streamling.plugins.shared import SharedResources
from streamling.plugins.sinks import Sink
from streamling.plugins.transforms import Transform
from streamling.retry import NeverStopping, ignore_retry
from streamling.spark.pickling import send_by_value
from streamling.spark.python_errors import to_executor_error

if TYPE_CHECKING:
    from streamling.spark.arrow_map import ArrowMap

#: columns of what the task of a sink returns
DELIVERY: Final = [field.name for field in fields(Delivery)]


def on_executor(planned: PlannedNode, operator: type[Operator[Any]] | None = None) -> ArrowMap:
    """Return the function that Spark calls for each partition; it is pickled with everything it needs.

    ``operator`` replaces the class of ``planned`` if that one cannot be pickled.
    """
    kind: type[Any] = operator or type(planned.operator)
    send_by_value(kind)
    context, (rows, _) = _portable(planned.operator.context), planned.operator.batching()
    work = _WORK[planned.node.kind](kind, context, rows)
    return _named(work, planned.node.label)


def _portable(context: NodeContext[Any]) -> NodeContext[Any]:
    """Return the context without what belongs to the driver's process."""
    return replace(
        context,
        state=UnavailableState(f"{context.name}: state is not available on executors"),
        metrics=_metrics(context),
        shared=SharedResources(),
        tables=UnavailableTables(f"{context.name}: dynamic tables are not available on executors"),
        functions={},
        rejected_rows=None,
        # a task may start in the middle of a run: what it cannot reach is retried as in any outage
        config=context.config.model_copy(update={"startup_timeout_sec": inf}),
        report_retry=ignore_retry,
        stopping=NeverStopping(),
        request_stop=ignore_stop,
        restart_stream=always_ready,
        checkpoint=always_ready,
    )


def _metrics(context: NodeContext[Any]) -> Metrics:
    from pyspark import SparkContext

    from streamling.engine.dataflow.executor_metrics import ExecutorMetrics

    spark = SparkContext._active_spark_context
    return NoopMetrics() if spark is None else ExecutorMetrics(spark, context.metrics)


def _transforming(kind: type[Transform[Any]], context: NodeContext[Any], rows: int | None) -> ArrowMap:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = kind(context)
        operator.open()
        try:
            yield from _results(operator, (part for batch in batches for part in _slices(batch, rows)))
        finally:
            operator.close()

    return run


def _results(operator: Transform[Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema, results = operator.output_schema(), OrderedResults(operator.process)
    made = (result for batch in batches for result in results.add(batch))
    for result in chain(made, results.drain()):
        check_columns(result.schema, schema)
        if result.num_rows:
            yield result


def _writing(kind: type[Sink[Any]], context: NodeContext[Any], rows: int | None) -> ArrowMap:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deliveries = Deliveries()
        operator = kind(replace(context, deliveries=deliveries))
        operator.open()
        written, rebatcher = 0, Rebatcher(rows, None)
        try:
            for batch in (batch for batch in batches if batch.num_rows):
                for part in rebatcher.add(batch, now=0.0):
                    operator.write(part)
                written += batch.num_rows
            for part in rebatcher.drain():
                operator.write(part)
            operator.flush()
        finally:
            operator.close()
        deliveries.settle(written)
        yield pa.record_batch([pa.array([count], pa.int64()) for count in vars(deliveries.total).values()], DELIVERY)

    return run


def _slices(batch: pa.RecordBatch, rows: int | None) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows or max(1, batch.num_rows)):
        yield batch.slice(start, rows or batch.num_rows)


#: the function for each partition, by the kind of the node: of the operator's class, its context and the rows per call
_WORK: Mapping[NodeKind, Callable[[Any, NodeContext[Any], int | None], ArrowMap]] = {
    NodeKind.TRANSFORM: _transforming,
    NodeKind.SINK: _writing,
}


# ── errors on executors ──────────────────────────────────────────────────────────────────────────────────────


def _named(function: ArrowMap, node: NodeLabel) -> ArrowMap:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = _Upstream(batches)
        try:
            yield from function(source)
        except (Exception, SystemExit) as error:
            if source.failed:
                raise  # an operator upstream in the same plan failed
            raise to_executor_error(error, node.name, node=node) from None

    return run


class _Upstream:
    """The batches of a partition; remembers whether reading them failed."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.failed = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException:
            self.failed = True
            raise
