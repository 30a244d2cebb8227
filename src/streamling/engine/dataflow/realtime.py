"""What rows of a real-time source would wait for, and where.

The answer comes from the segments that run: the evaluator of small batches knows how far the driver gets, and what
follows it knows what happens to rows that it gets as Arrow data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from streamling.engine.dataflow.driver_evaluator import DriverEvaluator, job_reason
from streamling.engine.dataflow.frame_sink import FrameSinkNode
from streamling.engine.dataflow.lanes import Lanes
from streamling.engine.dataflow.segment import SegmentNode, SqlNode
from streamling.errors import StreamlingError
from streamling.pipeline.model import Node
from streamling.plugins.streams import NeedsJob, StreamedSource


@dataclass(frozen=True)
class Delay:
    """A node at which rows wait."""

    node: Node
    #: what they wait for, as a verb with its object
    what: str
    remedy: str

    @classmethod
    def by_job(cls, node: Node, job: NeedsJob) -> Delay:
        return cls(node, f"needs a Spark job for each batch, because {job.reason}", job.remedy)

    @classmethod
    def by_batching(cls, node: Node) -> Delay:
        remedy = "write batch_size: 0 and no batch_flush_interval, also in the configuration"
        return cls(node, "collects rows into batches", remedy)

    def error(self, source: str) -> StreamlingError:
        """Return the error of the node, whose rows come from ``source``."""
        return StreamlingError.user(
            f"{self.what}, but the source '{source}' has latency: realtime",
            remedy=f"{self.remedy}, or set latency: standard",
        )


def find_delays(source: StreamedSource[Any], node: Node, evaluator: DriverEvaluator | NeedsJob) -> Iterator[Delay]:
    """Yield what the small batches of ``node``, which ``source`` reads, wait for if they are evaluated like this."""
    if isinstance(evaluator, NeedsJob):
        yield Delay.by_job(node, evaluator)
        return
    from streamling.types.spark import to_arrow_schema

    for end in evaluator.ends():
        columns = to_arrow_schema(end.rows.frame().schema)
        yield from _delays(end.node, columns, partial(job_reason, source, end))


def _delays(node: SegmentNode, columns: pa.Schema | None, job_of: Callable[[SqlNode], NeedsJob]) -> Iterator[Delay]:
    """Return the delays for rows that ``node`` emits as Arrow data, with these ``columns`` (None: the planned ones);
    ``job_of`` says why an SQL node cannot take them otherwise."""
    for side in node.side_outputs:
        yield Delay.by_job(side.node, NeedsJob("Spark selects the values of a dynamic table"))
    for consumer in node.consumers:
        if isinstance(consumer, SqlNode):
            yield Delay.by_job(consumer.node, job_of(consumer))
        elif isinstance(consumer, FrameSinkNode):
            if (job := consumer.operator.needs_job(columns or consumer.operator.context.input_schema)) is not None:
                yield Delay.by_job(consumer.node, job)
        elif isinstance(consumer, Lanes):
            if any(lane.holds_rows for lane in consumer.lanes):
                yield Delay.by_batching(consumer.node)
            if consumer.segment is not None:
                yield from _delays(consumer.segment.root, None, _job_below_python)


def _job_below_python(node: SqlNode) -> NeedsJob:
    return node.needs_job or NeedsJob("its rows come from a node that runs in Python", "move its SQL above that node")
