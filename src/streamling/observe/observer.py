"""What the engine reports about one run, in one place."""

from __future__ import annotations

import time
from collections.abc import Callable

from streamling.observe.activity import Activity
from streamling.observe.dead_letters import RecentDeadLetters
from streamling.observe.epochs import EpochLog
from streamling.observe.event_times import EventTimes
from streamling.observe.live_rows import LiveRows
from streamling.observe.telemetry.metrics import MetricStore
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import Node, Pipeline
from streamling.plugins.registry import Registry


class RunObserver:
    """Holds everything that is observed about one run, apart from its metrics."""

    def __init__(
        self,
        pipeline: Pipeline,
        config: AppConfig,
        registry: Registry,
        metrics: MetricStore,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.activities = {node.name: _activity(node, config, registry, metrics, now) for node in pipeline}
        self.event_times = {
            node.name: EventTimes(node.name, settings, metrics.of(node.name))
            for node in pipeline
            if (settings := node.options.telemetry.event_time) is not None
        }
        self.epochs = EpochLog(now=now)
        self.dead_letters = RecentDeadLetters()
        self.live_rows = LiveRows(
            [node.name for node in pipeline if node.kind.has_output and node.options.emits_rows],
            config.live_data_inspect.records_per_topology_node,
            config.live_data_inspect.refresh_in_secs,
            always=config.live_data_inspect_enabled,
            now=now,
        )
        metrics.before_snapshot(self._add_running_waits)

    def _add_running_waits(self) -> None:
        for activity in self.activities.values():
            activity.spent()


def _activity(
    node: Node, config: AppConfig, registry: Registry, metrics: MetricStore, now: Callable[[], float]
) -> Activity:
    found = registry.get(node.kind, node.type)
    return Activity(
        metrics.of(node.name),
        kind="plugin" if found is not None and found.plugin else "native",
        event_seconds=config.backpressure_event_threshold_ms / 1000,
        now=now,
    )
