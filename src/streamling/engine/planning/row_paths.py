"""What happens to the rows of a node downstream; operators find it in their context."""

from __future__ import annotations

from streamling.pipeline.model import Node, Pipeline
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.registry import Registry


def is_collected(pipeline: Pipeline, node: Node, registry: Registry) -> bool:
    """Whether rows of ``node`` are loaded into this process, as rejected ones are. They are not when Spark alone
    processes them down to the last sink."""
    below = list(pipeline.downstream(node.name))
    if any(one.dead_letters is not None for one in (node, *below)):
        return True
    return any(_collects(consumer, registry) for consumer in below)


def _collects(consumer: Node, registry: Registry) -> bool:
    operator = registry.operator(consumer.kind, consumer.type)
    return operator is None or operator.execution is not ExecutionMode.SPARK or bool(consumer.options.lookups())


def is_spread(pipeline: Pipeline, node: Node) -> bool:
    """Whether rows of ``node`` pass through a transform that Spark spreads over several tasks by key."""
    return any(below.kind.has_output and below.options.instance_count > 1 for below in pipeline.downstream(node.name))
