"""What rows of a real-time source would wait for, and where.

The answer comes from the parts that run: the delivery of small batches knows how far the driver evaluates their plan,
and the steps below it know what happens to the rows that they get as Arrow data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from streamling.engine.dataflow.frame_sink import FrameSinkStep
from streamling.engine.dataflow.local_delivery import LocalDelivery, job_reason
from streamling.engine.dataflow.network import FrameStep, LaneStep, Outlet
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
        """The error of the node, whose rows come from ``source``."""
        return StreamlingError.user(
            f"{self.what}, but the source '{source}' has latency: realtime",
            remedy=f"{self.remedy}, or set latency: standard",
        )


def find_delays(source: StreamedSource[Any], node: Node, delivery: LocalDelivery | NeedsJob) -> Iterator[Delay]:
    """What the small batches of ``node``, which ``source`` reads, wait for if they are delivered like this."""
    if isinstance(delivery, NeedsJob):
        yield Delay.by_job(node, delivery)
        return
    from streamling.types.spark import to_arrow_schema

    for end in delivery.ends():
        columns = to_arrow_schema(end.rows.frame().schema)
        yield from _delays(end.outlet, columns, partial(job_reason, source, end))


def _delays(outlet: Outlet, columns: pa.Schema | None, job_of: Callable[[FrameStep], NeedsJob]) -> Iterator[Delay]:
    """For rows that pass ``outlet`` as Arrow data, with these ``columns`` (None: the planned ones); ``job_of`` says why
    a Spark step cannot take them otherwise."""
    for side in outlet.side_outputs:
        yield Delay.by_job(side.node, NeedsJob("Spark selects the values of a dynamic table"))
    for step in outlet.steps:
        if isinstance(step, FrameStep):
            yield Delay.by_job(step.node, job_of(step))
        elif isinstance(step, FrameSinkStep):
            if (job := step.operator.needs_job(columns or step.operator.context.input_schema)) is not None:
                yield Delay.by_job(step.node, job)
        elif isinstance(step, LaneStep):
            if any(lane.holds_rows for lane in step.lanes):
                yield Delay.by_batching(step.node)
            if step.outlet is not None:
                yield from _delays(step.outlet, None, _job_below_python)


def _job_below_python(step: FrameStep) -> NeedsJob:
    return step.needs_job or NeedsJob("its rows come from a node that runs in Python", "move its SQL above that node")
