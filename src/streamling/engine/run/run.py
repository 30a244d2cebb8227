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

from streamling.clock import Clock, RealClock
from streamling.engine.checkpoint.checkpointer import Checkpointer
from streamling.engine.dataflow.events import Events
from streamling.engine.dataflow.meter import SparkCounting
from streamling.engine.planning import analysis, planned, sources
from streamling.engine.planning.analysis import check_realtime
from streamling.engine.planning.build import Builder
from streamling.engine.planning.execution_graph import ExecutionGraph
from streamling.engine.planning.placement import placement_for
from streamling.engine.run.contexts import Contexts, row_measures
from streamling.engine.run.node_declarations import NodeDeclarations
from streamling.engine.run.retry_tracker import RetryTracker
from streamling.engine.run.status import RunStatus, current_status, summary, total_progress
from streamling.engine.run.termination import Termination
from streamling.errors import StreamlingError
from streamling.observe.observer import RunObserver
from streamling.observe.telemetry.logging import RunScope, current_run
from streamling.observe.telemetry.metrics import PIPELINE
from streamling.observe.telemetry.tags import add_own_labels, create_store
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import Pipeline
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.shared import SharedResources
from streamling.plugins.side_outputs import SideOutput
from streamling.plugins.sources import Position, Progress
from streamling.plugins.state_backend import StateBackend
from streamling.recursion import recursion_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: a checkpoint that takes longer is reported in the status
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
        runs_once: bool = False,
    ) -> None:
        """With ``count_in_spark``, rows that never leave Spark are counted, too, which costs time. ``spark_settings``
        are those of the run's own Spark session; ``shared`` may contain resources for the operators. With
        ``read_only``, nothing outside of this process is changed. With ``runs_once``, there is no other run."""
        self.pipeline = pipeline = pipeline.with_config_defaults(config)
        self._config = config
        self._registry = registry
        self._clock = clock or RealClock()
        self._deep_calls = ExitStack()
        self._counting = SparkCounting(count_in_spark)
        self._spark_settings = spark_settings or {}
        self._read_only = read_only
        #: what the run has measured so far
        self.metrics = create_store(pipeline, config, registry)
        #: what can be seen of the run while it runs
        self.observer = RunObserver(pipeline, config, registry, self.metrics)
        self._measures = row_measures(pipeline, registry, self.observer, self.metrics, self._counting)
        self.metrics.before_snapshot(self._before_snapshot)
        #: the errors that nodes are retrying
        self.retrying = RetryTracker()
        self._termination = Termination(self._clock, config.shutdown_budget_secs)
        #: whether the user has paused the sources, and whether everything has been closed
        self.is_paused = self.has_ended = False
        self.started_at: datetime | None = None
        #: the running parts; empty before the start
        self.graph = ExecutionGraph()
        self._checkpointer: Checkpointer | None = None
        self._sides: dict[str, SideOutput[Any]] = {}
        #: makes the context of one instance of a node's operator
        self.context = Contexts(
            pipeline,
            config,
            registry,
            state,
            self.metrics,
            shared or SharedResources(),
            self._sides,
            self._measures,
            self.retrying,
            stopping=self._termination.stopping,
            request_stop=self.stop,
            restart_stream=lambda flow, timeout: self.graph.flows[flow].restart(timeout),
            checkpoint=self.checkpoint,
            read_only=read_only,
            runs_once=runs_once,
        )
        self._sides |= sources.make_side_outputs(pipeline, registry, self.context)
        self._sources = sources.make_sources(pipeline, registry, self.context)
        self._on_first_rows: Callable[[], None] = lambda: None
        self.resolved: planned.ResolvedPipeline | None = None
        self._known_schemas: Mapping[str, pa.Schema | None] | None = None
        self.analysis: planned.Analysis | None = None

    # ── before the start ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def node_declarations(self) -> NodeDeclarations:
        """What the operator classes of the nodes declare."""
        return NodeDeclarations(self.pipeline, self._config, self._registry, self.context)

    @property
    def bounded(self) -> bool:
        """Whether all sources have an end."""
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
        if self._known_schemas is None:
            resolved = self.resolved or self.resolve_sources()
            self._known_schemas = analysis.check_without_spark(resolved, self._registry, self.context, self._sides)
        return self._known_schemas

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

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Open sinks and sources and let data flow; returns immediately."""
        current_run.set(RunScope(self._config.application_id, lambda: self.observer.epochs.last))
        self._deep_calls.enter_context(recursion_limit(_OTHER_CALLS + _CALLS_PER_NODE * len(self.pipeline.nodes)))
        self.graph = self._build()
        for name, operators in self.graph.operators.items():
            add_own_labels(self.metrics, self.pipeline[name], operators[0].labels())
        self._termination.watch(self.graph.flows)
        self._checkpointer = Checkpointer(
            flows=self.graph.flows,
            sinks=self.graph.sinks,
            state=self.context.state,
            on_finalized=self._on_finalized,
            on_failure=lambda error: self.fail(self.retrying.add_retry_cause(error)),
            interval=self._config.checkpoint_interval_sec,
            timeout=self._config.checkpoint_timeout_sec,
            clock=self._clock,
            metrics=self.metrics.of(PIPELINE),
            epochs=self.observer.epochs,
        )
        self.started_at = datetime.now(UTC)
        try:
            self.graph.start(self.fail)
        except StreamlingError:
            self._deep_calls.close()
            raise
        self._checkpointer.start()

    def _build(self) -> ExecutionGraph:
        """Return all parts of the pipeline; nothing is started."""
        assert self.analysis is not None, "analyse first"
        events = Events(
            on_ack=lambda sink, epoch, entries: self._checkpoints.acked(sink, epoch, entries),
            on_marked=lambda flow, epoch, position: self._checkpoints.marked(flow, epoch, position),
            on_moved=lambda: self._checkpoints.moved(),
            on_end=self._termination.flow_ended,
            on_failure=self.fail,
            on_limit=self.stop,
            on_first_rows=self._on_first_rows,
            request_checkpoint=lambda: self._checkpoints.checkpoint(0),
        )
        return Builder(
            self.analysis,
            self._session,
            placement_for(self._config.spark.master),
            self.context,
            events,
            self._clock,
            self._config.num_records_before_stop,
            self.observer,
            self._measures,
            self._counting,
            self.node_declarations.queue_length,
        ).build()

    def stop(self, reason: str, keep_position: bool = False) -> None:
        """Request a clean stop; returns immediately. The first reason counts."""
        self._termination.request_stop(reason, keep_position)
        if keep_position and self._checkpointer is not None:
            self._checkpointer.stop()
        self._termination.on_finish()

    def fail(self, error: StreamlingError) -> None:
        """End the run with ``error``: nothing is committed from here on. If it has failed already, the error is only
        logged: the first failure may have caused it."""
        if self._termination.fail(error):
            self._termination.stopping.set()
            self._checkpoints.stop()
            self._termination.on_finish()
        else:
            log.debug("after the failure: %s", error)

    def checkpoint(self, timeout: float) -> bool:
        """Run a checkpoint now. True if everything that was delivered before the call is stored within ``timeout``
        seconds."""
        return self._checkpoints.checkpoint(timeout)

    def count_in_spark(self) -> None:
        """Count rows that never leave Spark, too, from now on. Streams restart at their positions, with counters in
        their plans."""
        if not self._counting.active:
            self._counting.active = True
            self.graph.restart_streams()

    def pause(self, is_paused: bool = True) -> None:
        """Deliver no batches until this is called with False; checkpoints continue. Returns immediately."""
        self.is_paused = is_paused
        self.graph.pause(is_paused)

    def wait(self) -> None:
        """Wait for the end and clean up. Raises the failure of the pipeline."""
        try:
            self._wait()
        finally:
            self.has_ended = True

    def wait_for_stop(self) -> None:
        self._termination.wait_for_request()

    def _wait(self) -> None:
        self._termination.wait()
        self.graph.stop_reading()
        if self.failure is None:
            self._last_checkpoint()  # bounded work is not stopping: rows may wait for a sink that is unavailable
        self._termination.stopping.set()
        self._close()
        if self.failure is not None:
            raise self.failure

    def operators(self, node: str) -> Sequence[Operator[Any]]:
        """Return the operators that run ``node``, one per instance."""
        return self.graph.operators[node]

    @property
    def failure(self) -> StreamlingError | None:
        """Why the run has failed."""
        return self._termination.failure

    @property
    def stop_reason(self) -> str | None:
        """Why a stop has been requested."""
        return self._termination.reason

    @property
    def is_stopping(self) -> bool:
        return self._termination.stopping.is_set()

    def has_source_ended(self, node: str) -> bool:
        """Return whether the source ``node`` has delivered its last row."""
        flows = (name for name, flow in self.graph.flows.items() if flow.node.name == node)
        return not any(self._termination.is_running(flow) for flow in flows)

    def status(self) -> RunStatus:
        """Return the status. May be called from any thread at any time."""
        return current_status(self.pipeline, self.graph, self._checkpointer, self.progress())

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
        if retrying := self.retrying.causes():
            return retrying
        waiting = self._checkpointer.stalled(_STALLED_SECONDS) if self._checkpointer is not None else None
        return f"the checkpoint waits for {waiting}" if waiting else ""

    def rows_written(self) -> Mapping[str, int]:
        """Return the rows per sink that its target has acknowledged."""
        return self.graph.rows_written()

    def summary(self) -> str:
        """Return the rows per sink, for people: ``2 to out (3 deduplicated), 1 dead letter to bad``."""
        return summary(self.pipeline, self.graph)

    def unfinished(self) -> list[str]:
        """Return what a stop still waits for. May be called from any thread at any time."""
        waiting = self._checkpointer.missing() if self._checkpointer is not None else None
        parts = [f"the final checkpoint waits for {waiting}"] if waiting else []
        parts += [f"{node} is busy" for node in self.graph.busy_nodes()]
        return parts or [f"{flow} is busy" for flow in self.graph.busy_flows()]

    def progress(self) -> Progress | None:
        """Return progress of all bounded sources that know theirs; None if there are none."""
        flows = self.graph.flows.values()
        sources = [flow.source for flow in flows] or self._sources.values()
        return total_progress([progress for source in sources if (progress := source.progress())])

    def _before_snapshot(self) -> None:
        """Record what is only measured on request."""
        for measures in self._measures.values():
            measures.collect()
        for name, batches in self.graph.queued_batches().items():
            self.observer.activities[name].report_queue(batches)

    # ── callbacks of the parts ───────────────────────────────────────────────────────────────────────────────

    @property
    def _checkpoints(self) -> Checkpointer:
        assert self._checkpointer is not None
        return self._checkpointer

    def _on_finalized(self, epoch: int, positions: Mapping[str, Position]) -> None:
        if not self._read_only:
            self.graph.commit(epoch, positions)
        self.graph.notify_finalized(epoch)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    def _last_checkpoint(self) -> None:
        if self._termination.keeps_position or self._termination.exits_fast(self._config, self._sources.values()):
            self._checkpoints.stop()
        else:
            self._termination.run_last_checkpoint(self._checkpoints, self._config, self.retrying.add_retry_cause)

    def _close(self) -> None:
        late, stuck = self.graph.close(self._termination.countdown(), self.fail)
        plugins = sum(self.observer.activities[lane.node.name].is_plugin for lane in stuck)
        self.metrics.of(PIPELINE).count("shutdown_unflushed_plugin_dispatchers", plugins)
        self._deep_calls.close()
        if late or stuck:
            self._termination.fail_busy([*(flow.name for flow in late), *(str(lane.node) for lane in stuck)])
