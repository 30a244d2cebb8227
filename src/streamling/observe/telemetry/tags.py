"""Tags that identify the pipeline and the node of a measurement."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from streamling.observe.telemetry.config import TelemetryConfig
from streamling.observe.telemetry.metrics import MetricStore
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import Node, Pipeline
from streamling.pipeline.node_types import NodeTypes

log = logging.getLogger(__name__)


def create_store(pipeline: Pipeline, config: AppConfig, types: NodeTypes) -> MetricStore:
    """Return an empty store that knows the nodes of ``pipeline``; operators add their own tags later."""
    settings = config.part(TelemetryConfig).open_telemetry_metrics
    store = MetricStore(settings.metric_deny_list, settings.tags)
    for node in pipeline.nodes:
        store.add_tags(node.name, _tags(node, config))
        found = types.get(node.kind, node.type)
        if found is not None and found.plugin:
            store.add_tags(node.name, {"type": node.type})
    return store


def add_own_labels(store: MetricStore, node: Node, own: Mapping[str, str]) -> None:
    """Add the tags of an operator about the system it uses; they override those in the file."""
    for name in own.keys() & node.options.telemetry.labels.keys():
        log.warning(
            "%s: label %s is '%s' as reported by the node; ignoring '%s' from telemetry.labels",
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
