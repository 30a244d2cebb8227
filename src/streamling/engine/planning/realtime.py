"""Checks that rows of real-time sources do not wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamling.engine.dataflow.network import job_for_each_batch
from streamling.engine.dataflow.realtime import Delay
from streamling.engine.dataflow.rebatch import Rebatcher
from streamling.engine.planning.execution_graph import ExecutionGraph
from streamling.engine.planning.planned import ResolvedPipeline
from streamling.engine.planning.problems import NodeProblems
from streamling.pipeline.error_locations import problem_from_error
from streamling.pipeline.model import Node
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import Operator


def realtime_nodes(resolved: ResolvedPipeline) -> Mapping[str, Sequence[str]]:
    """The nodes below real-time sources, with the names of these sources."""
    names = [name for name, source in resolved.sources.items() if source.is_realtime]
    below = {name: {node.name for node in resolved.pipeline.downstream(name)} for name in names}
    return {node.name: found for node in resolved.pipeline if (found := [n for n in names if node.name in below[n]])}


def static_delays(node: Node, operator: Operator[Any]) -> Iterator[Delay]:
    """What rows would wait for at ``node``, as far as it can be seen without Spark."""
    if (job := job_for_each_batch(operator, len(node.upstreams))) is not None:
        yield Delay.by_job(node, job)
    if operator.execution is ExecutionMode.LANE and Rebatcher(*operator.batching()).holds_rows:
        yield Delay.by_batching(node)


def check_realtime(graph: ExecutionGraph) -> None:
    """Raise `InvalidPipeline` with every node of ``graph``, which has not been started, at which rows of a real-time
    source would wait."""
    problems = NodeProblems()
    for flow in graph.flows.values():
        problems.add(problem_from_error(each.error(flow.node.name), each.node) for each in flow.find_delays())
    problems.raise_all()
