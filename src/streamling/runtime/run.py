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
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.checkpoint.checkpointer import Checkpointer
from streamling.checkpoint.clock import Clock, RealClock
from streamling.checkpoint.coordinator import terminal_wait
from streamling.config import AppConfig
from streamling.dataflow.frame_sink import FrameSinkStep
from streamling.dataflow.lane import QUEUE_LENGTH
from streamling.dataflow.meter import SparkCounting
from streamling.dataflow.row_measures import RowMeasures
from streamling.dataflow.side_outputs import SideOutputStep
from streamling.errors import StreamlingError
from streamling.observe.observer import RunObserver
from streamling.pipeline.config_defaults import apply_config_defaults
from streamling.pipeline.error_locations import node_errors
from streamling.pipeline.model import Node, Pipeline
from streamling.planning import analysis, planned, row_paths, sources
from streamling.planning.build import Builder
from streamling.planning.connection_checks import NodeConnection
from streamling.planning.execution_graph import Callbacks, ExecutionGraph
from streamling.planning.placement import placement_for, runs_on_executors
from streamling.plugins.connections import ExternalPosition
from streamling.plugins.context import NodeContext, unchanged
from streamling.plugins.operators import Operator, Position, Progress
from streamling.plugins.registry import Registry
from streamling.plugins.rejects import RejectedRows
from streamling.plugins.shared import SharedResources
from streamling.plugins.side_outputs import LookupTable, SideOutput
from streamling.recursion import recursion_limit
from streamling.runtime.node_state import NodeStateView
from streamling.runtime.retry_tracker import RetryTracker
from streamling.runtime.status import RunStatus, sum_known, total_progress
from streamling.spark.master import is_local
from streamling.state.backend import StateBackend
from streamling.telemetry.logging import RunScope, current_run
from streamling.telemetry.metrics import PIPELINE
from streamling.telemetry.tags import add_own_labels, create_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: part of the shutdown budget that is reserved for closing the state, the metrics and Spark
_RESERVE_SECONDS = 2.0
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
        read_only: bool = False,
    ) -> None:
        """With ``count_in_spark``, rows that never leave Spark are counted, too. This costs time, so use it only if the
        metrics are exported. ``spark_settings`` are those of the run's own Spark session. With ``read_only``, nothing
        outside of this process is changed: sources commit nothing, and tables are only read."""
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
        self.metrics = create_store(pipeline, config)
        #: what can be seen of the run while it runs
        self.observer = RunObserver(pipeline, config, registry, self.metrics)
        self._measures = self._row_measures()
        self.metrics.before_snapshot(self._before_snapshot)
        self._shared = SharedResources()
        #: columns that each node has reported as dropped
        self._dropped_columns: dict[str, dict[str, object]] = {}
        self._retrying = RetryTracker()
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._failure: StreamlingError | None = None
        self.stop_reason: str | None = None
        self._deadline: float | None = None
        self._keep_position = False
        #: whether sources are paused, and whether everything has been closed
        self.is_on_hold = self.has_ended = False
        self.started_at: datetime | None = None
        self._running: set[str] = set()
        self._graph = ExecutionGraph()
        self._checkpointer: Checkpointer | None = None
        self._sides: Mapping[str, SideOutput[Any]] = {}
        self._sides = sources.make_side_outputs(pipeline, registry, self.context)
        self._sources = sources.make_sources(pipeline, registry, self.context)
        self._on_first_rows: Callable[[], None] = lambda: None
        self._on_finish: Callable[[], None] = lambda: None
        self.resolved: planned.ResolvedPipeline | None = None
        self.analysis: planned.Analysis | None = None

    # ── before the start ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def spark_packages(self) -> frozenset[str]:
        """Spark packages that the JVM has to be started with: those that the nodes need."""
        return frozenset[str]().union(*(kind.spark_packages(node.options) for node, kind in self._kinds()))

    def connections(self, spark: Callable[[], SparkSession]) -> list[NodeConnection]:
        """What the nodes connect to. No connection is made yet; ``spark`` is for checks that need a session."""
        found = []
        for node, kind in self._kinds():
            with node_errors(node):
                named = kind.connections(self.context(node, pa.schema([]), 0, 1), spark)
                found += [NodeConnection(node.name, connection) for connection in named]
        return found

    def external_positions(self, spark: Callable[[], SparkSession], only: str | None) -> list[ExternalPosition]:
        """Positions that the nodes, or ``only`` one, store outside of the state backend."""
        found: list[ExternalPosition] = []
        for node, kind in self._kinds():
            if only in (None, node.name):
                found += kind.external_positions(self.context(node, pa.schema([]), 0, 1), spark)
        return found

    @property
    def needs_python_workers(self) -> bool:
        """Whether operators run in Python on the executors of a cluster."""
        local = is_local(self._config.spark.master)
        return not local and any(runs_on_executors(node, kind) for node, kind in self._kinds())

    def _kinds(self) -> Iterator[tuple[Node, type[Operator[Any]]]]:
        """Each node that this version can run, with its operator class."""
        for node in self.pipeline:
            operator = self._registry.operator(node.kind, node.type)
            if operator is not None:
                yield node, operator

    @property
    def bounded(self) -> bool:
        """Whether the run ends by itself."""
        return all(source.bounded for source in self._sources.values())

    @property
    def needs_spark(self) -> bool:
        """Whether Spark's analysis can find more errors than the static checks."""
        return bool(self.pipeline.transforms)

    def on_first_rows(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when the first rows reach a sink; set before the start."""
        self._on_first_rows = listener

    def on_finish(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when `wait` has something to do: the pipeline has failed, ended or been asked to stop. It
        may be called several times, from any thread, and must not block; set before the start. With it, a process with
        many runs needs no thread that waits for each of them."""
        self._on_finish = listener

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
            stopping=self._stopping,
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
        callbacks = Callbacks(
            on_ack=lambda sink, epoch, entries: self._checkpoints.acked(sink, epoch, entries),
            on_marked=lambda flow, epoch, position: self._checkpoints.marked(flow, epoch, position),
            on_end=self._on_end,
            on_failure=self._on_failure,
            on_limit=self.stop,
            on_first_rows=self._on_first_rows,
            request_checkpoint=lambda: self._checkpoints.checkpoint(0),
        )
        self._graph = Builder(
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
            self._queue_length,
        ).build()
        for name, operators in self._graph.operators.items():
            add_own_labels(self.metrics, self.pipeline[name], operators[0].labels())
        self._running = set(self._graph.flows)
        self._checkpointer = Checkpointer(
            flows=self._graph.flows,
            sinks=self._graph.sinks,
            state=_Positions(self._state),
            on_finalized=self._on_finalized,
            on_failure=lambda error: self._on_failure(self._retrying.add_retry_cause(error)),
            interval=self._config.checkpoint_interval_sec,
            timeout=self._config.checkpoint_timeout_sec,
            clock=self._clock,
            metrics=self.metrics.of(PIPELINE),
            epochs=self.observer.epochs,
        )
        self.started_at = datetime.now(UTC)
        self._open_steps()
        for lane in self._graph.lanes:
            lane.start()
        for flow in self._graph.flows.values():
            flow.start()
        self._checkpointer.start()

    def stop(self, reason: str, keep_position: bool = False) -> None:
        """Request a clean stop; returns immediately. The first reason counts."""
        with self._changed:
            self._keep_position |= keep_position
            if self.stop_reason is None:
                self.stop_reason = reason
                budget = self._config.shutdown_budget_secs
                # closing the rest after the operators takes time, too
                self._deadline = self._clock.now() + budget - min(_RESERVE_SECONDS, budget / 4)
                self._stopping.set()
            self._changed.notify_all()
        if keep_position and self._checkpointer is not None:
            self._checkpointer.stop()
        self._on_finish()

    def checkpoint(self, timeout: float) -> bool:
        """Run a checkpoint now. True if everything that was delivered before the call is stored within ``timeout``
        seconds."""
        return self._checkpoints.checkpoint(timeout)

    def count_in_spark(self) -> None:
        """From now on, count rows that never leave Spark, too. Streams restart at their positions, with counters in
        their plans."""
        if not self._counting.active:
            self._counting.active = True
            for flow in self._graph.flows.values():
                flow.restart(0)

    def hold(self, on_hold: bool) -> None:
        """Deliver no batches until this is called with False; checkpoints continue. Returns immediately."""
        self.is_on_hold = on_hold
        for flow in self._graph.flows.values():
            flow.hold(on_hold)

    def wait(self) -> None:
        """Wait for the end and clean up. Raises the failure of the pipeline."""
        try:
            self._wait()
        finally:
            self.has_ended = True

    def wait_for_stop(self) -> None:
        """Wait until somebody requests a stop."""
        with self._changed:
            self._changed.wait_for(lambda: self.stop_reason is not None)

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self.stop_reason or not self._running)
        for flow in self._graph.flows.values():
            flow.pause()
        if self._failure is None:
            # bounded work is not stopping: its last rows may wait for a sink that is unavailable
            self._last_checkpoint()
        self._stopping.set()
        self._close()
        if self._failure is not None:
            raise self._failure

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
        return self._failure

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def has_source_ended(self, node: str) -> bool:
        """Whether the source ``node`` has delivered its last row."""
        return not any(flow.node.name == node and name in self._running for name, flow in self._graph.flows.items())

    @property
    def retries(self) -> Mapping[str, StreamlingError]:
        """The errors that nodes are retrying."""
        return self._retrying.errors

    def status(self) -> RunStatus:
        """May be called from any thread at any time."""
        written = self.rows_written()
        dead = sum(rows for name, rows in written.items() if self.pipeline.rejecting_nodes(name))
        flows = list(self._graph.flows.values())
        return RunStatus(
            rows_in=sum_known(flow.rows_in for flow in flows),
            rows_out=sum(written.values()) - dead,
            dead_letters=dead,
            lag=sum_known(flow.source.lag() for flow in flows),
            checkpoint_age=self._checkpointer.age() if self._checkpointer is not None else None,
            epoch=self.epoch,
            progress=self.progress(),
        )

    @property
    def epoch(self) -> int | None:
        """The last checkpoint since the start; None before the first."""
        return self._checkpointer.epoch if self._checkpointer is not None else None

    @property
    def impediment(self) -> str:
        """What currently keeps rows from being stored: nodes that retry, or a checkpoint that takes unusually long;
        empty if there is nothing."""
        if retrying := self._retrying.causes():
            return retrying
        waiting = self._checkpointer.stalled(_STALLED_SECONDS) if self._checkpointer is not None else None
        return f"the checkpoint waits for {waiting}" if waiting else ""

    def rows_written(self) -> Mapping[str, int]:
        """Rows per sink, without those that the sink rejected."""
        written = {
            name: limit.taken - sum(_rejected(operator) for operator in self._graph.operators.get(name, ()))
            for name, limit in self._graph.limits.items()
            if limit.taken
        }
        return {name: rows for name, rows in written.items() if rows}

    def summary(self) -> str:
        """The rows per sink, for people: ``2 to out, 1 dead letter to bad``."""
        parts, written = [], self.rows_written()
        for name in (sink.name for sink in self.pipeline.sinks):
            rows = written.get(name, 0)
            letters = (
                "" if not self.pipeline.rejecting_nodes(name) else " dead letter" if rows == 1 else " dead letters"
            )
            parts.append(f"{rows:,}{letters} to {name}")
        return ", ".join(parts)

    def unfinished(self) -> list[str]:
        """What a stop still waits for. May be called from any thread at any time."""
        waiting = self._checkpointer.missing() if self._checkpointer is not None else None
        parts = [f"the final checkpoint waits for {waiting}"] if waiting else []
        parts += [f"{lane.node} is busy" for lane in self._graph.lanes if not lane.join(0)]
        return parts or [f"{flow.name} is busy" for flow in self._graph.flows.values() if not flow.has_ended()]

    def busy_parts(self) -> list[str]:
        """The flows and nodes whose threads have not ended."""
        flows = [flow.name for flow in self._graph.flows.values() if not flow.has_ended()]
        return [*flows, *(str(lane.node) for lane in self._graph.lanes if not lane.join(0))]

    def progress(self) -> Progress | None:
        """Progress of all bounded sources that know theirs; None if there are none."""
        flows = self._graph.flows.values()
        sources = [flow.source for flow in flows] or self._sources.values()
        return total_progress([progress for source in sources if (progress := source.progress())])

    def _queue_length(self, node: Node) -> int:
        """Batches that may wait in front of ``node``."""
        found, config = self._registry.get(node.kind, node.type), self._config
        own = config.plugin.explicit_value("channel_capacity") if found is not None and found.plugin else None
        return own or config.explicit_value("internal_buffer_size") or QUEUE_LENGTH

    def _row_measures(self) -> Mapping[str, RowMeasures]:
        """What is measured about the rows of nodes besides their number: event times where the file asks for them, row
        kinds while rows are counted in Spark."""
        times, found = self.observer.event_times, {}
        for node, kind in self._kinds():
            kinds = kind.row_kind_metric
            if node.name in times or kinds is not None:
                metrics = self.metrics.of(node.name)
                found[node.name] = RowMeasures(node.name, metrics, times.get(node.name), kinds, self._counting)
        return found

    def _before_snapshot(self) -> None:
        """Record what is only known when somebody asks."""
        for measures in self._measures.values():
            measures.collect()
        queued: dict[str, int] = {}
        for lane in self._graph.lanes:
            queued[lane.node.name] = queued.get(lane.node.name, 0) + lane.queued
        for name, batches in queued.items():
            self.observer.activities[name].report_queue(batches)

    # ── callbacks of the parts ───────────────────────────────────────────────────────────────────────────────

    @property
    def _checkpoints(self) -> Checkpointer:
        assert self._checkpointer is not None
        return self._checkpointer

    def _on_end(self, flow: str) -> None:
        with self._changed:
            self._running.discard(flow)
            self._changed.notify_all()
            has_ended = not self._running
        if has_ended:
            self._on_finish()

    def _on_failure(self, error: StreamlingError) -> None:
        """The first failure ends the pipeline; those that it causes are only logged."""
        with self._changed:
            first = self._failure is None
            if first:
                self._failure = error
            self._changed.notify_all()
        if first:
            self._stopping.set()
            self._checkpoints.stop()  # nothing is committed from here on
            self._on_finish()
        else:
            log.debug("after the failure: %s", error)

    def _on_finalized(self, epoch: int, positions: Mapping[str, Position]) -> None:
        if not self._read_only:
            for name, position in positions.items():
                self._graph.flows[name].commit(epoch, position)
        for lane in self._graph.lanes:
            lane.notify_finalized(epoch)
        for step in self._graph.steps_without_lane:
            step.notify_finalized(epoch)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    def _last_checkpoint(self) -> None:
        if self._keep_position or self._exits_fast():
            self._checkpoints.stop()
            return
        # a stop has a deadline, bounded work that has ended does not
        budget = self._config.shutdown_budget_secs
        wait = terminal_wait(budget) if self.stop_reason else self._config.checkpoint_timeout_sec
        if not self._checkpoints.terminal(wait) and self._failure is None and not self._keep_position:
            missing = self._checkpoints.missing() or "nothing"
            failure = StreamlingError(
                f"the final checkpoint was not completed within {wait:g} s: waiting for {missing}; rows since the last "
                "checkpoint will be replayed",
                remedy="raise shutdown_budget_secs if the sink only needs more time" if self.stop_reason else None,
            )
            self._failure = self._retrying.add_retry_cause(failure)

    def _exits_fast(self) -> bool:
        """``drain_policy: fast`` skips the last checkpoint after a signal, but not for bounded work."""
        if self.stop_reason is None or self._config.drain_policy != "fast":
            return False
        if any(source.always_drains for source in self._sources.values()):
            log.warning("drain_policy 'fast' does not apply to bounded sources: draining")
            return False
        return True

    def _close(self) -> None:
        """Close flows first, then lanes from the top down, so that everything in the queues is processed."""
        deadline = self._deadline or self._clock.now() + self._config.shutdown_budget_secs
        late = [flow.name for flow in self._graph.flows.values() if not flow.close(self._left(deadline))]
        stuck = []
        for lane in reversed(self._graph.lanes):
            lane.end()
            if not lane.join(self._left(deadline)):
                stuck.append(lane)
        late += [str(lane.node) for lane in stuck]
        plugins = sum(self.observer.activities[lane.node.name].is_plugin for lane in stuck)
        self.metrics.of(PIPELINE).count("shutdown_unflushed_plugin_dispatchers", plugins)
        for step in self._graph.steps_without_lane:
            self._close_step(step)
        self._deep_calls.close()
        if late:
            self._failure = self._failure or StreamlingError(
                f"still busy after shutdown_budget_secs ({self._config.shutdown_budget_secs:g} s): "
                f"{', '.join(late)}; rows since the last checkpoint will be replayed"
            )

    def _open_steps(self) -> None:
        """Open all or none: those that were opened before a failure are closed again."""
        opened: list[FrameSinkStep | SideOutputStep] = []
        try:
            for step in self._graph.steps_without_lane:
                step.open()
                opened.append(step)
        except StreamlingError:
            for step in opened:
                self._close_step(step)
            self._deep_calls.close()
            raise

    def _close_step(self, step: FrameSinkStep | SideOutputStep) -> None:
        try:
            step.close()
        except StreamlingError as error:
            self._on_failure(error)

    def _left(self, deadline: float) -> float:
        return max(0.1, deadline - self._clock.now())


class _Positions:
    """The state backend as checkpoints see it."""

    def __init__(self, backend: StateBackend) -> None:
        self._backend = backend

    def put_many(self, entries: Mapping[str, Any]) -> None:
        self._backend.put_positions(entries)


def _rejected(operator: Operator[Any]) -> int:
    return operator.context.rejected_rows.count if operator.context.rejected_rows is not None else 0
