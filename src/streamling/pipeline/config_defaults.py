"""Applies the configuration that is for all nodes of a type."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from streamling.pipeline.model import Node, Pipeline

if TYPE_CHECKING:
    from streamling.pipeline.config import AppConfig

log = logging.getLogger(__name__)


def apply_config_defaults(pipeline: Pipeline, config: AppConfig) -> Pipeline:
    """Return ``pipeline`` with the defaults of the configuration for fields that its nodes do not set. Warns about
    fields that have no effect."""
    for node in pipeline:
        _warn_of_ineffective(node)
    return replace(
        pipeline,
        nodes=tuple(replace(node, options=node.options.with_config_defaults(config)) for node in pipeline.nodes),
    )


def _warn_of_ineffective(node: Node) -> None:
    for field, why in node.options.ineffective().items():
        log.warning("%s: `%s` has no effect: %s", node, field, why)
