"""The tags that say which pipeline and which node a measurement is of."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from streamling.config import AppConfig
from streamling.pipeline.model import Node, Pipeline
from streamling.telemetry.config import TelemetryConfig
from streamling.telemetry.metrics import MetricStore

log = logging.getLogger(__name__)


def store_for(pipeline: Pipeline, config: AppConfig) -> MetricStore:
    """An empty store that knows the nodes of ``pipeline``; operators add what they know of themselves later."""
    settings = config.part(TelemetryConfig).open_telemetry_metrics
    store = MetricStore(settings.metric_deny_list, settings.tags)
    for node in pipeline.nodes:
        store.add_tags(node.name, _tags(node, config))
    return store


def add_own_labels(store: MetricStore, node: Node, own: Mapping[str, str]) -> None:
    """Tags by which an operator says what it talks to; it knows better than the file."""
    for name in own.keys() & node.options.telemetry.labels.keys():
        log.warning(
            "%s: label %s is '%s', as the node itself says, not '%s' as telemetry.labels says",
            *(node, name, own[name], node.options.telemetry.labels[name]),
        )
    store.add_tags(node.name, own)


def _tags(node: Node, config: AppConfig) -> Mapping[str, str]:
    return {
        **node.options.telemetry.labels,
        "id": node.name,
        "topology_node_type": node.kind.value,
        "operator_type": node.type,
        "service_instance_id": config.application_id,
    }
