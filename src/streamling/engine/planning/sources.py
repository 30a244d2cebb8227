"""The operators that planning starts with: sources, which know the first columns, and side outputs.

Nothing here needs a JVM; it runs while one starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from streamling.engine.planning.planned import (
    ContextFactory,
    NodeProblems,
    PlannedNode,
    ResolvedPipeline,
    instances_of,
)
from streamling.pipeline.checks import job_problem
from streamling.pipeline.error_locations import node_errors
from streamling.pipeline.keys import with_primary_keys
from streamling.pipeline.model import Node, Pipeline
from streamling.plugins.registry import Registry
from streamling.plugins.side_outputs import SideOutput
from streamling.plugins.sources import AnySource
from streamling.types.row_kind import OP_COLUMN

#: sources that are resolved at the same time: most of the time is spent waiting for responses
_CONCURRENT_SOURCES = 8


def make_sources(pipeline: Pipeline, registry: Registry, context: ContextFactory) -> dict[str, AnySource[Any]]:
    """Return the source operators; no system has been contacted yet."""
    sources, problems = {}, NodeProblems()
    for node in pipeline.sources:
        with problems.collect(node):
            kind = registry.operator(node)
            operator = kind(context(node, pa.schema([]), 0, instances_of(node, kind)))
            assert isinstance(operator, AnySource), node
            sources[node.name] = operator
            if operator.context.config.job_mode and not operator.bounded:
                problems.add([job_problem(node)])
    problems.raise_all()
    return sources


def make_side_outputs(pipeline: Pipeline, registry: Registry, context: ContextFactory) -> dict[str, SideOutput[Any]]:
    """Return the side outputs, which other operators receive in their context; no system has been contacted yet."""
    side_outputs, problems = {}, NodeProblems()
    for node in pipeline.transforms:
        kind = registry.operator(node)
        if issubclass(kind, SideOutput):
            with problems.collect(node):
                side_outputs[node.name] = kind(context(node, pa.schema([]), 0, 1))
    problems.raise_all()
    return side_outputs


def resolve_sources(
    pipeline: Pipeline, sources: Mapping[str, AnySource[Any]], *, enforce_keys: bool
) -> ResolvedPipeline:
    """Get the columns of all sources, several at a time; failures are reported together, in name order."""
    with ThreadPoolExecutor(_CONCURRENT_SOURCES, thread_name_prefix="resolve") as pool:
        futures = {node.name: pool.submit(_resolve_source, node, sources[node.name]) for node in pipeline.sources}
    nodes, problems = {}, NodeProblems()
    for name in sorted(futures):
        with problems.collect(pipeline[name]):
            nodes[name] = futures[name].result()
    problems.raise_all()
    inferred = {name: source.inferred_primary_key() for name, source in sources.items()}
    return ResolvedPipeline(with_primary_keys(pipeline, inferred, enforce=enforce_keys), sources, nodes)


def _resolve_source(node: Node, source: AnySource[Any]) -> PlannedNode:
    with node_errors(node):
        schema = source.schema()
    if OP_COLUMN not in schema.names:
        schema = schema.append(pa.field(OP_COLUMN, pa.string(), nullable=False))
    return PlannedNode(node, source, pa.schema([]), schema)
