"""Which nodes belong to the segment of a producer: `build.py` makes running segments of it, `plan` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streamling.pipeline.model import Node, Pipeline
from streamling.plugins.execution import ExecutionMode


@dataclass(frozen=True)
class PlannedSegment:
    """The nodes that the rows of a producer reach before another producer has them."""

    #: a source, or a transform in a lane
    producer: Node
    #: what Spark runs, and the lanes at the ends; each node after its consumers
    nodes: tuple[Node, ...]


def plan_segments(pipeline: Pipeline, modes: Mapping[str, ExecutionMode]) -> dict[str, PlannedSegment]:
    """Return the segments by their producers; ``modes`` says how the engine runs each node. Segments that meet in a
    UNION ALL share the nodes below it."""
    return {
        node.name: PlannedSegment(node, tuple({each.name: each for each in _below(pipeline, node, modes)}.values()))
        for node in pipeline
        if node.kind.has_output and modes[node.name] not in (ExecutionMode.SPARK, ExecutionMode.SIDE)
    }


def _below(pipeline: Pipeline, node: Node, modes: Mapping[str, ExecutionMode]) -> Iterator[Node]:
    for consumer in pipeline.consumers(node.name):
        mode = modes[consumer.name]
        if mode is ExecutionMode.SPARK:
            yield from _below(pipeline, consumer, modes)
        if mode is not ExecutionMode.SIDE:
            yield consumer
