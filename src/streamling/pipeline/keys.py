"""Primary keys: those of the file, those that a source knows, and those inherited from upstream."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.dead_letters import KEY
from streamling.pipeline.document.suggest import closest, listing
from streamling.pipeline.model import Node, Pipeline
from streamling.pipeline.options import SinkOptions, SourceOptions
from streamling.pipeline.validation_errors import problem_at

log = logging.getLogger(__name__)


def with_primary_keys(pipeline: Pipeline, inferred: Mapping[str, tuple[str, ...]], enforce: bool) -> Pipeline:
    """Return ``pipeline`` with the key of every node: its own, otherwise the one that a source has inferred, otherwise
    that of its upstream. A node without a key causes a warning, or an error with ``enforce``."""
    resolved = _resolve(pipeline, inferred)
    without = [node for node in resolved if not node.primary_key and node.options.emits_rows]
    refused = [node for node in without if enforce or node.options.requires_primary_key]
    if refused:
        raise InvalidPipeline([no_key(node, enforce) for node in refused])
    for node in without:
        log.warning("%s", no_key(node, enforce))
    return resolved


def with_known_keys(pipeline: Pipeline) -> Pipeline:
    """Return ``pipeline`` with the keys that are known from the file alone; nothing is reported."""
    return _resolve(pipeline, {})


def check_key_columns(node: Node, columns: Sequence[str]) -> Problem | None:
    """Return a problem if a key column of ``node`` is not among its ``columns``. A sink that inherits its key has the
    columns of its upstream, where the key has been checked."""
    if not node.kind.has_output and not node.options.primary_key:
        return None
    missing = [name for name in node.primary_key if name not in columns]
    if not missing:
        return None
    match = closest(missing[0], columns)
    return problem_at(
        f"{node}: primary key column{'s' if len(missing) > 1 else ''} {listing(missing)} not found; "
        f"available columns: {listing(columns)}",
        node.value_location("primary_key"),
        f"did you mean '{match}'?" if match else "add the column to the node's output, or change 'primary_key'",
    )


def _resolve(pipeline: Pipeline, inferred: Mapping[str, tuple[str, ...]]) -> Pipeline:
    keys: dict[str, tuple[str, ...]] = {}
    for node in pipeline:
        inherited = keys.get(node.upstreams[0], ()) if node.upstreams else ()
        if pipeline.rejecting_nodes(node.name):
            inherited = KEY
        keys[node.name] = node.options.primary_key or inferred.get(node.name, ()) or inherited
    return replace(pipeline, nodes=tuple(replace(node, primary_key=keys[node.name]) for node in pipeline))


def keyless(pipeline: Pipeline, enforce: bool) -> list[Problem]:
    """Return the problems that `with_primary_keys` will report, whatever the sources know."""
    open_ended = {
        node.name for node in pipeline if isinstance(node.options, SourceOptions) and node.options.infers_primary_key
    }
    for node in pipeline:
        if node.upstreams and node.upstreams[0] in open_ended:
            open_ended.add(node.name)
    return [
        no_key(node, enforce)
        for node in pipeline
        if not node.primary_key and node.name not in open_ended and node.options.emits_rows
        if node.options.requires_primary_key or (enforce and not node.kind.has_input)
    ]


def no_key(node: Node, enforced: bool) -> Problem:
    """Return the problem of a node that has no key."""
    needed = node.options.requires_primary_key
    message = f"{node} {'needs a' if needed else 'has no'} primary key"
    if node.upstreams:
        message += f", and none can be inherited from {listing(node.upstreams)}"
    if not needed and isinstance(node.options, SinkOptions) and node.options.upserts:
        message += ": it appends rows, writes replayed rows again and skips deletes"
    reason = "; enforce_primary_keys is on" if enforced and not needed else ""
    return problem_at(message, node.location, f"add 'primary_key'{reason}")
