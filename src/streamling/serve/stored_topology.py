"""The topology of a pipeline that does not run: drawn from its definition, with the numbers of its last run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from streamling.observe.rate_history import Counts, RunCounts
from streamling.pipeline.sketch import SketchedNode, node_at_line, sketch_pipeline
from streamling.serve.lifecycle import Actual, State
from streamling.serve.model import PipelineKey

#: a place in a pipeline file at the beginning of an error
_PLACE = re.compile(r"\S+\.ya?ml:(\d+)")
#: status of nodes that have not failed themselves
_STATUS = {State.FAILED: "stopped", State.RESTARTING: "stopped"}


def stored_topology(
    key: PipelineKey, definition: str, actual: Actual, last: tuple[float, RunCounts] | None
) -> dict[str, Any]:
    """Return the same fields as the topology of a run, which `engine/run/topology.py` describes; None where only a run
    has a number. ``definition`` contains no secrets; ``last`` are the last counts and their time."""
    file = f"{key.name}.yaml"
    nodes = sketch_pipeline(definition, file)
    counts = RunCounts(Counts()) if last is None else last[1]
    failed = _failed_node(actual, nodes)
    targets = {node.dead_letters for node in nodes}
    error = {"node": failed, "message": actual.error, "remedy": actual.remedy or None} if actual.error else None
    return {
        "pipeline": key.name,
        "application_id": key.application_id,
        "state": actual.state,
        "live": False,
        "measured_at": None if last is None else _iso(last[0]),
        "started_at": None,
        "epoch": None,
        "checkpoint_age_s": None,
        "memory": None,
        "error": error,
        "nodes": [
            _node(node, file, actual, failed, counts.nodes.get(node.name), node.name in targets) for node in nodes
        ],
        "edges": [edge for node in nodes for edge in _edges(node)],
        "history": {},
    }


def _failed_node(actual: Actual, nodes: Sequence[SketchedNode]) -> str | None:
    """Return the node that the error names, or in whose lines of the file it is."""
    if not actual.error:
        return None
    place = _PLACE.match(actual.error)
    named = actual.last_failure.node if actual.last_failure is not None else ""
    return named or (node_at_line(nodes, int(place[1])) if place is not None else None)


def _node(
    node: SketchedNode,
    file: str,
    actual: Actual,
    failed: str | None,
    counts: Counts | None,
    takes_dead_letters: bool,
) -> dict[str, Any]:
    is_failed = node.name == failed
    return {
        "name": node.name,
        "kind": node.kind.value,
        "type": node.type,
        "instances": 1,
        "location": f"{file}:{node.line}",
        "rows_in": None if counts is None else counts.rows_in,
        "rows_out": None if counts is None else counts.rows_out,
        "lag": None if counts is None else counts.lag,
        "rate_in": None,
        "rate_out": None,
        "status": "failed" if is_failed else _STATUS.get(actual.state, actual.state.value),
        "takes_dead_letters": takes_dead_letters,
        "status_reason": actual.error if is_failed else "",
        "description": "",
        "schema": [],
        "definition": node.definition,
    }


def _edges(node: SketchedNode) -> list[dict[str, Any]]:
    edges = [
        {"from": upstream, "to": node.name, "kind": "rows", "rows": None, "rate": None} for upstream in node.upstreams
    ]
    if node.dead_letters is not None:
        edges.append({"from": node.name, "to": node.dead_letters, "kind": "rejected", "rows": None, "rate": None})
    return edges


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
