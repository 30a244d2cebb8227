"""One run of a pipeline, from its parsed form to its end. Runs share nothing: several can run in one process on one
Spark session.

    run = PipelineRun(pipeline, config=config, registry=registry, state=state)
    run.resolve_sources()     # columns of the sources; needs no JVM
    run.analyse(session)      # columns of all nodes; --validate and --dry-run end here
    run.start()
    run.wait()                # returns when the pipeline has finished or drained, raises its failure
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.engine.checkpoint.checkpointer import Checkpointer
from streamling.engine.checkpoint.clock import Clock, RealClock
from streamling.engine.checkpoint.coordinator import terminal_wait
from streamling.engine.dataflow.meter import SparkCounting
from streamling.engine.planning import analysis, planned, row_paths, sources
from streamling.engine.planning.build import Builder
from streamling.engine.planning.execution_graph import Callbacks, ExecutionGraph
from streamling.engine.planning.placement import placement_for
from streamling.engine.planning.realtime import check_realtime
from streamling.engine.run.node_state import NodeStateView
from streamling.engine.run.operator_classes import OperatorClasses
from streamling.engine.run.retry_tracker import RetryTracker
from streamling.engine.run.status import RunStatus, current_status, summary, total_progress
from streamling.engine.run.termination import Termination
from streamling.errors import StreamlingError
from streamling.observe.observer import RunObserver
from streamling.observe.telemetry.logging import RunScope, current_run
from streamling.observe.telemetry.metrics import PIPELINE
from streamling.observe.telemetry.tags import add_own_labels, create_store
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config_defaults import apply_config_defaults
from streamling.pipeline.model import Node, Pipeline
from streamling.plugins.context import NodeContext, unchanged
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.rejects import RejectedRows
from streamling.plugins.shared import SharedResources
from streamling.plugins.side_outputs import LookupTable, SideOutput
from streamling.plugins.sources import Position, Progress
from streamling.plugins.state_backend import StateBackend
from streamling.recursion import recursion_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: a checkpoint that takes longer is worth a remark
_STALLED_SECONDS = 5.0
#: stack depth that one node of a chain adds to the processing of a batch, and what everything else needs
_CALLS_PER_NODE, _OTHER_CALLS = 20, 1000


class PipelineRun:
    """One run of one pipeline. `stop` may be called from any thread, the rest from one."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        config: AppConfig,
        registry: Registry,
        state: StateBackend,
        clock: Clock | None = None,
        count_in_spark: bool = False,
        spark_settings: Mapping[str, str] | None = None,
        shared: SharedResources | None = None,
        read_only: bool = False,
    ) -> None:
        """With ``count_in_spark``, rows that never leave Spark are counted, too. This costs time, so use it only if the
        metrics are exported. ``spark_settings`` are those of the run's own Spark session; ``shared`` may contain
        resources for the operators. With ``read_only``, nothing outside of this process is changed: sources commit
        nothing, and tables are only read."""
        pipeline = apply_config_defaults(pipeline, config)
        self.pipeline = pipeline
        self._config = config
        self._registry = registry
        self._state = state
        self._clock = clock or RealClock()
        self._deep_calls = ExitStack()
        self._counting = SparkCounting(count_in_spark)
        self._spark_settings = spark_settings or {}
        self._read_only = read_only
        #: what the run has measured so far
        self.metrics = create_store(pipeline, config, registry)
        #: what can be seen of the run while it runs
        self.observer = RunObserver(pipeline, config, registry, self.metrics)
        self._measures = self.operator_classes.row_measures(self.observer, self.metrics, self._counting)
        self.metrics.before_snapshot(self._before_snapshot)
        self._shared = shared or SharedResources()
        #: columns that each node has reported as dropped
        self._dropped_columns: dict[str, dict[str, object]] = {}
        self._retrying = RetryTracker()
        self._termination = Termination(self._clock, config.shutdown_budget_secs)
        #: whether sources are paused, and whether everything has been closed
        self.is_on_hold = self.has_ended = False
        self.started_at: datetime | None = None
        self._graph = ExecutionGraph()
        self._checkpointer: Checkpointer | None = None
        self._sides: Mapping[str, SideOutput[Any]] = {}
        self._sides = sources.make_side_outputs(pipeline, registry, self.context)
        self._sources = sources.make_sources(pipeline, registry, self.context)
        self._on_first_rows: Callable[[], None] = lambda: None
        self.resolved: planned.ResolvedPipeline | None = None
        self.analysis: planned.Analysis | None = None

    # ── before the start ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def operator_classes(self) -> OperatorClasses:
        """What the operator classes of the nodes declare."""
        return OperatorClasses(self.pipeline, self._config, self._registry, self.context)

    @property
    def bounded(self) -> bool:
        """Whether the run ends by itself."""
        return all(source.bounded for source in self._sources.values())

    @property
    def needs_spark(self) -> bool:
        """Whether Spark's analysis can find more errors than the static checks."""
        return bool(self.pipeline.transforms) or self._is_realtime

    @property
    def _is_realtime(self) -> bool:
        return any(source.is_realtime for source in self._sources.values())

    def on_first_rows(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when the first rows reach a sink; set before the start."""
        self._on_first_rows = listener

    def on_finish(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when `wait` has something to do: the pipeline has failed, ended or been asked to stop. It
        may be called several times, from any thread, and must not block; set before the start. With it, a process with
        many runs needs no thread that waits for each of them."""
        self._termination.on_finish = listener

    def resolve_sources(self) -> planned.ResolvedPipeline:
        """Get the columns of the sources and resolve all primary keys. Needs no JVM."""
        self.resolved = sources.resolve_sources(
            self.pipeline, self._sources, enforce_keys=self._config.enforce_primary_keys
        )
        self.pipeline = self.resolved.pipeline
        return self.resolved

    def check_without_spark(self) -> Mapping[str, pa.Schema | None]:
        """Raise `InvalidPipeline` with every error that can be found before Spark has started; otherwise return the
        columns of every node as far as they are known."""
        resolved = self.resolved or self.resolve_sources()
        return analysis.check_without_spark(resolved, self._registry, self.context, self._sides)

    def analyse(self, session: SparkSession) -> planned.Analysis:
        """Get the columns of all nodes with the help of Spark; finds all remaining errors of the user."""
        resolved = self.resolved or self.resolve_sources()
        # names and settings of one pipeline must not affect another
        self._session = session.newSession()
        for name, value in self._spark_settings.items():
            self._session.conf.set(name, value)
        self.analysis = analysis.analyse(resolved, self._session, self._registry, self.context, self._sides)
        if self._is_realtime:
            check_realtime(self._build())
        return self.analysis

    def context(self, node: Node, input_schema: pa.Schema, instance: int, instances: int) -> NodeContext[Any]:
        """The context of one instance of a node's operator."""
        flow = node.name if instances == 1 else f"{node.name}[{instance}]"
        return NodeContext(
            name=node.name,
            options=node.options,
            config=self._config,
            state=NodeStateView(self._state, node.name, [other.name for other in self.pipeline]),
            metrics=self.metrics.of(node.name),
            primary_key=node.primary_key,
            input_schema=input_schema,
            collected=row_paths.is_collected(self.pipeline, node, self._registry),
            is_splittable=not row_paths.is_spread(self.pipeline, node),
            instance=instance,
            instances=instances,
            shared=self._shared,
            functions=self._registry.functions,
            tables={name: side for name, side in self._sides.items() if isinstance(side, LookupTable)},
            stopping=self._termination.stopping,
            request_stop=self.stop,
            rejected_rows=RejectedRows(node.name, node.primary_key) if node.dead_letters is not None else None,
            read_only=self._read_only,
            measure_rows=self._measures[node.name].in_source if node.name in self._measures else unchanged,
            dropped_columns=self._dropped_columns.setdefault(node.name, {}),
            report_retry=lambda error: self._retrying.report(node.name, error),
            restart_stream=lambda timeout: self._graph.flows[flow].restart(timeout),
            checkpoint=lambda timeout: self._checkpoints.checkpoint(timeout),
        )

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Open sinks and sources and let data flow; returns immediately."""
        assert self.analysis is not None, "analyse first"
        current_run.set(RunScope(self._config.application_id, lambda: self.observer.epochs.last))
        self._deep_calls.enter_context(recursion_limit(_OTHER_CALLS + _CALLS_PER_NODE * len(self.analysis.nodes)))
        self._graph = self._build()
        for name, operators in self._graph.operators.items():
            add_own_labels(self.metrics, self.pipeline[name], operators[0].labels())
        self._termination.watch(self._graph.flows)
        self._checkpointer = Checkpointer(
            flows=self._graph.flows,
            sinks=self._graph.sinks,
            state=self._state,
            on_finalized=self._on_finalized,
            on_failure=lambda error: self._on_failure(self._retrying.add_retry_cause(error)),
            interval=self._config.checkpoint_interval_sec,
            timeout=self._config.checkpoint_timeout_sec,
            clock=self._clock,
            metrics=self.metrics.of(PIPELINE),
            epochs=self.observer.epochs,
        )
        self.started_at = datetime.now(UTC)
        try:
            self._graph.start(self._on_failure)
        except StreamlingError:
            self._deep_calls.close()
            raise
        self._checkpointer.start()

    def _build(self) -> ExecutionGraph:
        """All parts of the pipeline; nothing is started."""
        assert self.analysis is not None, "analyse first"
        callbacks = Callbacks(
            on_ack=lambda sink, epoch, entries: self._checkpoints.acked(sink, epoch, entries),
            on_marked=lambda flow, epoch, position: self._checkpoints.marked(flow, epoch, position),
            on_moved=lambda: self._checkpoints.moved(),
            on_end=self._termination.flow_ended,
            on_failure=self._on_failure,
            on_limit=self.stop,
            on_first_rows=self._on_first_rows,
            request_checkpoint=lambda: self._checkpoints.checkpoint(0),
        )
        return Builder(
            self.analysis,
            self._session,
            placement_for(self._config.spark.master),
            self.context,
            callbacks,
            self._clock,
            self._config.num_records_before_stop,
            self.observer,
            self._measures,
            self._counting,
            self.operator_classes.queue_length,
        ).build()

    def stop(self, reason: str, keep_position: bool = False) -> None:
        """Request a clean stop; returns immediately. The first reason counts."""
        self._termination.request_stop(reason, keep_position)
        if keep_position and self._checkpointer is not None:
            self._checkpointer.stop()
        self._termination.on_finish()

    def fail(self, error: StreamlingError) -> None:
        """End the run with ``error``, unless it has failed already: nothing is committed from here on."""
        self._on_failure(error)

    def checkpoint(self, timeout: float) -> bool:
        """Run a checkpoint now. True if everything that was delivered before the call is stored within ``timeout``
        seconds."""
        return self._checkpoints.checkpoint(timeout)

    def count_in_spark(self) -> None:
        """From now on, count rows that never leave Spark, too. Streams restart at their positions, with counters in
        their plans."""
        if not self._counting.active:
            self._counting.active = True
            self._graph.restart_streams()

    def hold(self, on_hold: bool) -> None:
        """Deliver no batches until this is called with False; checkpoints continue. Returns immediately."""
        self.is_on_hold = on_hold
        self._graph.hold(on_hold)

    def wait(self) -> None:
        """Wait for the end and clean up. Raises the failure of the pipeline."""
        try:
            self._wait()
        finally:
            self.has_ended = True

    def wait_for_stop(self) -> None:
        """Wait until somebody requests a stop."""
        self._termination.wait_for_request()

    def _wait(self) -> None:
        self._termination.wait()
        self._graph.pause()
        if self.failure is None:
            # bounded work is not stopping: its last rows may wait for a sink that is unavailable
            self._last_checkpoint()
        self._termination.stopping.set()
        self._close()
        if self.failure is not None:
            raise self.failure

    def operators(self, node: str) -> Sequence[Operator[Any]]:
        """The operators that run ``node``, one per instance."""
        return self._graph.operators[node]

    @property
    def graph(self) -> ExecutionGraph:
        """The running parts; empty before the start."""
        return self._graph

    @property
    def failure(self) -> StreamlingError | None:
        """Why the run has failed."""
        return self._termination.failure

    @property
    def stop_reason(self) -> str | None:
        """Why somebody has requested a stop."""
        return self._termination.reason

    @property
    def is_stopping(self) -> bool:
        return self._termination.stopping.is_set()

    def has_source_ended(self, node: str) -> bool:
        """Whether the source ``node`` has delivered its last row."""
        flows = (name for name, flow in self._graph.flows.items() if flow.node.name == node)
        return not any(self._termination.is_running(flow) for flow in flows)

    @property
    def retries(self) -> Mapping[str, StreamlingError]:
        """The errors that nodes are retrying."""
        return self._retrying.errors

    def status(self) -> RunStatus:
        """May be called from any thread at any time."""
        return current_status(self.pipeline, self._graph, self._checkpointer, self.progress())

    @property
    def epoch(self) -> int | None:
        """The last checkpoint since the start; None before the first."""
        return self._checkpointer.epoch if self._checkpointer is not None else None

    @property
    def is_evaluating(self) -> bool:
        """Whether Spark evaluates something for the run, or did when it failed."""
        return any(activity.is_evaluating for activity in self.observer.activities.values())

    @property
    def stall_reason(self) -> str:
        """What currently keeps rows from being stored: nodes that retry, or a checkpoint that takes unusually long;
        empty if there is nothing."""
        if retrying := self._retrying.causes():
            return retrying
        waiting = self._checkpointer.stalled(_STALLED_SECONDS) if self._checkpointer is not None else None
        return f"the checkpoint waits for {waiting}" if waiting else ""

    def rows_written(self) -> Mapping[str, int]:
        """Rows per sink that its target has acknowledged."""
        return self._graph.rows_written()

    def summary(self) -> str:
        """The rows per sink, for people: ``2 to out (3 deduplicated), 1 dead letter to bad``."""
        return summary(self.pipeline, self._graph)

    def unfinished(self) -> list[str]:
        """What a stop still waits for. May be called from any thread at any time."""
        waiting = self._checkpointer.missing() if self._checkpointer is not None else None
        parts = [f"the final checkpoint waits for {waiting}"] if waiting else []
        parts += [f"{node} is busy" for node in self._graph.busy_nodes()]
        return parts or [f"{flow} is busy" for flow in self._graph.busy_flows()]

    def progress(self) -> Progress | None:
        """Progress of all bounded sources that know theirs; None if there are none."""
        flows = self._graph.flows.values()
        sources = [flow.source for flow in flows] or self._sources.values()
        return total_progress([progress for source in sources if (progress := source.progress())])

    def _before_snapshot(self) -> None:
        """Record what is only known when somebody asks."""
        for measures in self._measures.values():
            measures.collect()
        for name, batches in self._graph.queued_batches().items():
            self.observer.activities[name].report_queue(batches)

    # ── callbacks of the parts ───────────────────────────────────────────────────────────────────────────────

    @property
    def _checkpoints(self) -> Checkpointer:
        assert self._checkpointer is not None
        return self._checkpointer

    def _on_failure(self, error: StreamlingError) -> None:
        """The first failure ends the pipeline; those that it causes are only logged."""
        if self._termination.fail(error):
            self._termination.stopping.set()
            self._checkpoints.stop()  # nothing is committed from here on
            self._termination.on_finish()
        else:
            log.debug("after the failure: %s", error)

    def _on_finalized(self, epoch: int, positions: Mapping[str, Position]) -> None:
        if not self._read_only:
            self._graph.commit(epoch, positions)
        self._graph.notify_finalized(epoch)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    def _last_checkpoint(self) -> None:
        if self._termination.keeps_position or self._exits_fast():
            self._checkpoints.stop()
            return
        # a stop has a deadline, bounded work that has ended does not
        budget = self._config.shutdown_budget_secs
        wait = terminal_wait(budget) if self.stop_reason else self._config.checkpoint_timeout_sec
        if not self._checkpoints.terminal(wait) and not self._termination.keeps_position:
            missing = self._checkpoints.missing() or "nothing"
            failure = StreamlingError(
                f"the final checkpoint was not completed within {wait:g} s: waiting for {missing}; rows since the last "
                "checkpoint will be replayed",
                remedy="raise shutdown_budget_secs if the sink only needs more time" if self.stop_reason else None,
            )
            self._termination.fail(self._retrying.add_retry_cause(failure))

    def _exits_fast(self) -> bool:
        """``drain_policy: fast`` skips the last checkpoint after a signal, but not for bounded work."""
        if self.stop_reason is None or self._config.drain_policy != "fast":
            return False
        if any(source.always_drains for source in self._sources.values()):
            log.warning("drain_policy 'fast' does not apply to bounded sources: draining")
            return False
        return True

    def _close(self) -> None:
        late, stuck = self._graph.close(self._termination.countdown(), self._on_failure)
        plugins = sum(self.observer.activities[lane.node.name].is_plugin for lane in stuck)
        self.metrics.of(PIPELINE).count("shutdown_unflushed_plugin_dispatchers", plugins)
        self._deep_calls.close()
        if late or stuck:
            busy = [*(flow.name for flow in late), *(str(lane.node) for lane in stuck)]
            failure = StreamlingError(
                f"still busy after shutdown_budget_secs ({self._config.shutdown_budget_secs:g} s): {', '.join(busy)}; "
                "rows since the last checkpoint will be replayed"
            )
            self._termination.fail(failure)
