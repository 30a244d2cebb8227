"""What the operators of a run know about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamling.engine.dataflow.meter import SparkCounting
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.engine.planning.placement import is_collected, is_spread
from streamling.engine.run.retry_tracker import RetryTracker
from streamling.observe.observer import RunObserver
from streamling.observe.telemetry.metrics import MetricStore
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import Node, Pipeline
from streamling.plugins.context import NodeContext, unchanged
from streamling.plugins.registry import Registry
from streamling.plugins.rejects import RejectedRows
from streamling.plugins.shared import SharedResources
from streamling.plugins.side_outputs import LookupTable, SideOutput
from streamling.plugins.state_backend import StateBackend
from streamling.retry import Stopping


@dataclass
class Contexts:
    """Makes the contexts of all operators of one run."""

    pipeline: Pipeline
    config: AppConfig
    registry: Registry
    state: StateBackend
    metrics: MetricStore
    shared: SharedResources
    #: by node; filled once they exist
    side_outputs: Mapping[str, SideOutput[Any]]
    #: by node
    measures: Mapping[str, RowMeasures]
    retrying: RetryTracker
    stopping: Stopping
    request_stop: Callable[[str, bool], None]
    #: restarts the stream of a flow within some seconds
    restart_stream: Callable[[str, float], bool]
    checkpoint: Callable[[float], bool]
    read_only: bool
    runs_once: bool
    #: columns that each node has reported as dropped
    dropped_columns: dict[str, dict[str, object]] = field(default_factory=dict)
    _state_views: list[NodeStateView] = field(default_factory=list)

    def __call__(self, node: Node, input_schema: pa.Schema, instance: int, instances: int) -> NodeContext[Any]:
        """Return the context of one instance of a node's operator."""
        flow = node.name if instances == 1 else f"{node.name}[{instance}]"
        state = NodeStateView(self.state, node.name, [other.name for other in self.pipeline])
        self._state_views.append(state)
        return NodeContext(
            name=node.name,
            options=node.options,
            config=self.config,
            state=state,
            metrics=self.metrics.of(node.name),
            primary_key=node.primary_key,
            input_schema=input_schema,
            collected=is_collected(self.pipeline, node, self.registry),
            is_splittable=not is_spread(self.pipeline, node),
            instance=instance,
            instances=instances,
            shared=self.shared,
            functions=self.registry.functions,
            tables={name: side for name, side in self.side_outputs.items() if isinstance(side, LookupTable)},
            stopping=self.stopping,
            request_stop=self.request_stop,
            rejected_rows=RejectedRows(node.name, node.primary_key) if node.dead_letters is not None else None,
            read_only=self.read_only,
            runs_once=self.runs_once,
            measure_rows=self.measures[node.name].in_source if node.name in self.measures else unchanged,
            dropped_columns=self.dropped_columns.setdefault(node.name, {}),
            report_retry=lambda error: self.retrying.report(node.name, error),
            restart_stream=lambda timeout: self.restart_stream(flow, timeout),
            checkpoint=self.checkpoint,
        )

    def use_state(self, state: StateBackend) -> None:
        """Let all operators use ``state`` from now on. Both have to be empty: what a source finds in its state decides
        what it asks."""
        self.state = state
        for view in self._state_views:
            view.backend = state


def row_measures(
    pipeline: Pipeline, registry: Registry, observer: RunObserver, metrics: MetricStore, counting: SparkCounting
) -> Mapping[str, RowMeasures]:
    """Return what is measured about the rows of nodes besides their number: event times where the file asks for them,
    row kinds while rows are counted in Spark."""
    times, found = observer.event_times, {}
    for node in pipeline:
        kinds = registry.operator(node).row_kind_metric
        if node.name in times or kinds is not None:
            found[node.name] = RowMeasures(node.name, metrics.of(node.name), times.get(node.name), kinds, counting)
    return found


class NodeStateView:
    """Reads and writes all entries of the pipeline; `clear` removes only those of the node."""

    def __init__(self, backend: StateBackend, node: str, others: Collection[str]) -> None:
        """``others`` are the names of the other nodes: a key belongs to the longest name that it starts with."""
        self.backend = backend
        self._node = node
        self._longer = tuple(f"{name}:" for name in others if name.startswith(f"{node}:"))

    @property
    def is_exclusive(self) -> bool:
        return self.backend.is_exclusive

    @property
    def is_shared(self) -> bool:
        return self.backend.is_shared

    def get(self, key: str) -> Any | None:
        return self.backend.get(key)

    def get_prefix(self, prefix: str) -> Mapping[str, Any]:
        return self.backend.get_prefix(prefix)

    def put(self, key: str, value: Any) -> None:
        self.backend.put(key, value)

    def put_if_absent(self, entries: Mapping[str, Any]) -> None:
        self.backend.put_if_absent(entries)

    def remove(self, key: str) -> None:
        self.backend.remove(key)

    def claim(self, keys: Collection[str]) -> Mapping[str, Any]:
        return self.backend.claim(keys)

    def clear(self) -> None:
        own = [key for key in self.backend.get_prefix(self._node) if self._is_own(key)]
        if own:
            self.backend.put_many(dict.fromkeys(own))

    def _is_own(self, key: str) -> bool:
        if key == self._node:
            return True
        return key.startswith(f"{self._node}:") and not f"{key}:".startswith(self._longer)
