"""Runs pipelines on threads of this process, all on one Spark session."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from streamling.engine.run.memory import jvm_megabytes
from streamling.engine.run.observed import ObservedRun
from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError
from streamling.observe.rate_history import RunCounts
from streamling.observe.telemetry.logging import current_pipeline
from streamling.observe.telemetry.metrics import Series
from streamling.observe.telemetry.reporting import reporting_metrics
from streamling.redaction import redact
from streamling.serve.background import Background
from streamling.serve.launchers import Launchers
from streamling.serve.model import PipelineRecord
from streamling.serve.runtime import JvmDeath, Measures, Phase, Preview, Report
from streamling.serve.sizes import SIZES
from streamling.serve.thread_costs import ThreadMeter
from streamling.serve.warm_spark import SharedJvm, WarmSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

#: Starts that run side by side. More than there are cores, because some of them wait for systems that do not respond.
_STARTS = 16
#: Drains that run side by side: each waits for its sinks.
_DRAINS = 64


class SharedRuntime:
    """The in-process `PipelineRuntime`."""

    def __init__(self, launchers: Launchers, spark: WarmSpark) -> None:
        self.launchers = launchers
        self.spark = spark
        self.threads = ThreadMeter()
        self.starts = Background(_STARTS)
        self.drains = Background(_DRAINS)

    def load(
        self, record: PipelineRecord, on_change: Callable[[], None], preview: Preview | None = None
    ) -> SharedHandle:
        return SharedHandle(self, record, on_change, preview)

    def close(self) -> None:
        self.spark.stop()


class Proof:
    """Whether Spark has run the queries of a run: rows have been delivered, and an epoch that began later is final."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._is_given = False

    def given(self, has_rows: bool, epoch: int | None) -> bool:
        """Return whether the first rows have been stored; ``epoch`` is the last final one. Called repeatedly."""
        if has_rows and self._epoch is None:
            self._epoch = epoch or 0
        if self._epoch is not None and not self._is_given:
            # the one after it may have begun before the rows
            self._is_given = (epoch or 0) >= self._epoch + 2
        return self._is_given


class _Unloaded(Exception):
    """The pipeline was unloaded while it started."""


class SharedHandle:
    """One pipeline on threads of this process."""

    def __init__(
        self,
        runtime: SharedRuntime,
        record: PipelineRecord,
        on_change: Callable[[], None],
        preview: Preview | None,
    ) -> None:
        self._runtime = runtime
        self._record = record
        self._preview = preview
        self._on_change = on_change
        self._lock = threading.Lock()
        self._resources = ExitStack()
        self._run: PipelineRun | None = None
        self._observed: ObservedRun | None = None
        #: None before Spark is needed
        self._jvm: SharedJvm | None = None
        self._jvm_death: JvmDeath | None = None
        self._proof = Proof()
        self._routes: ASGIApp | None = None
        self._phase = Phase.STARTING
        self._error: StreamlingError | None = None
        self._unloaded = threading.Event()
        self._has_session = self._has_started = self._has_finished = self._is_draining = self._has_lost_jvm = False
        self._context = contextvars.copy_context()
        self._context.run(current_pipeline.set, str(record.key))
        runtime.starts.run(self._start, f"start {record.key}", self._context)

    # ── what the reconciler asks ────────────────────────────────────────────────────────────────────────────

    def report(self) -> Report:
        phase, run, error = self._phase, self._run, self._error
        if phase is Phase.RUNNING and self._has_lost_jvm:
            return Report(Phase.STOPPING, reason="Spark has ended")
        if phase is Phase.STOPPING and run is not None:
            busy = ", ".join(run.graph.busy_parts())
            return Report(phase, reason=f"waiting for {busy}" if busy else "")
        if phase is Phase.RUNNING and run is not None:
            stall_reason = run.stall_reason
            ready = run.epoch is not None and not stall_reason
            return Report(phase, ready=ready, reason=redact(stall_reason), proven=self.is_proven)
        if error is None:
            return Report(phase)
        return Report(
            phase,
            error=redact(error.with_causes),
            remedy=redact(error.remedy or ""),
            node=error.node.name if error.node is not None else "",
            retriable=error.retriable,
            jvm_death=self._jvm_death,
        )

    def measure(self) -> Measures:
        run = self._run
        if run is None:
            return Measures()
        status = run.status()
        costs = self._runtime.threads.costs(str(self._record.key))
        return Measures(
            rows=run.rows_written(),
            rows_out=status.rows_out,
            dead_letters=status.dead_letters,
            rows_in=status.rows_in,
            lag=status.lag,
            epoch=status.epoch,
            checkpoint_age=status.checkpoint_age,
            threads=costs.threads,
            cpu_seconds=costs.cpu_seconds,
            shared_with=run.graph.shared_with,
        )

    def counts(self) -> RunCounts | None:
        return self._observed.counts() if self._observed is not None and self._has_started else None

    def routes(self) -> ASGIApp | None:
        with self._lock:
            return self._routes if self._has_started else None

    def metrics(self, timeout: float) -> Sequence[Series]:
        with self._lock:
            observed = self._observed if self._has_started else None
        return () if observed is None else observed.measurements()

    def unload(self) -> None:
        self._unloaded.set()
        with self._lock:
            run = self._run if self._has_started else None
        if run is not None:
            run.stop("unloaded")

    def checkpoint(self, timeout: float) -> bool:
        run = self._run
        return run is not None and self._phase is Phase.RUNNING and run.checkpoint(timeout)

    # ── what the JVM asks ───────────────────────────────────────────────────────────────────────────────────

    @property
    def is_evaluating(self) -> bool:
        run = self._run
        if not self._has_started:
            return self._has_session
        return run is not None and run.is_evaluating

    @property
    def is_proven(self) -> bool:
        run = self._run
        return run is not None and self._proof.given(any(flow.rows_in for flow in run.graph.flows.values()), run.epoch)

    def on_jvm_death(self) -> None:
        """Fail at once: a pipeline that waits for rows would notice the death with the next ones."""
        self._has_lost_jvm = True
        self._on_change()
        with self._lock:
            has_started = self._has_started
        if has_started:  # a start notices it by itself
            self._runtime.drains.run(self._fail, f"fail {self._record.key}", self._context)

    def _fail(self) -> None:
        assert self._run is not None
        assert self._jvm is not None
        if (death := self._jvm.death()) is not None:
            self._run.fail(death.error())

    # ── start ───────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        try:
            run = self._started()
        except _Unloaded:
            self._close(None)
        except (Exception, SystemExit) as error:
            self._close(error)
        else:
            with self._lock:
                self._has_started, has_finished = True, self._has_finished
            self._move(Phase.RUNNING)
            log.info("running")
            if self._has_lost_jvm:
                self._fail()
            run.checkpoint(0)  # once it is complete, every node is connected
            if self._unloaded.is_set():
                run.stop("unloaded")
            elif has_finished:
                self._finish()

    def _started(self) -> PipelineRun:
        from starlette.routing import Router  # while the JVM starts

        from streamling.serve.admin.routes import reading_routes

        record, runtime = self._record, self._runtime
        parsed = runtime.launchers.take(record, self._preview)
        self._check_wanted()
        launcher = parsed.launcher
        run = self._resources.enter_context(
            launcher.prepared(parsed.pipeline, lambda packages: self._session, checked=parsed.checked)
        )
        self._check_wanted()
        assert self._jvm is not None
        session = self._jvm.driver.session()
        if not launcher.is_preview:
            self._resources.enter_context(reporting_metrics(run.metrics, launcher.config, None, os.environ))
        run.on_finish(self._finish)
        self._run = run
        self._observed = ObservedRun(
            run,
            name=record.key.name,
            application_id=record.key.application_id,
            jvm_megabytes=lambda: jvm_megabytes(session),
        )
        self._routes = Router(reading_routes(self._observed))
        run.start()
        return run

    def _session(self) -> SparkSession:
        self._check_wanted()
        spark, pool = self._runtime.spark, str(self._record.key)
        self._jvm = spark.jvm()
        self._jvm.join(self)
        session = self._jvm.driver.session()
        self._has_session = True
        spark.add_pool(session, pool, SIZES[self._record.size].weight)
        self._resources.callback(spark.remove_pool, session, pool)
        return session

    def _check_wanted(self) -> None:
        if self._unloaded.is_set():
            raise _Unloaded

    # ── end ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self) -> None:
        """Clean up after a run that has failed, ended or been stopped, on a thread that may wait."""
        with self._lock:
            self._has_finished = True
            if not self._has_started or self._is_draining:
                return  # not before the start has ended: it would start what is being closed
            self._is_draining = True
        self._runtime.drains.run(self._drain, f"drain {self._record.key}", self._context)

    def _drain(self) -> None:
        run, error = self._run, None
        assert run is not None
        self._move(Phase.STOPPING)
        try:
            run.wait()
        except (Exception, SystemExit) as caught:
            error = caught
        # A part that is stuck might still write old rows after those of the next run: that one has to wait.
        while run.graph.busy_parts():
            self._on_change()
            threading.Event().wait(1.0)
        log.info("stopped; rows: %s", run.summary())
        self._close(error)

    def _close(self, error: BaseException | None) -> None:
        try:
            self._resources.close()
        except Exception as caught:
            error = error or caught
        self._error = None if error is None else self._translate(error)
        if self._jvm is not None:
            self._jvm.leave(self)
        if self._error is not None:
            log.error("%s", self._error.with_causes)
        self._move(Phase.ENDED)

    def _translate(self, error: BaseException) -> StreamlingError:
        """Replace the error if the JVM has died: its last output explains more, and the next start has another JVM."""
        death = None if self._jvm is None else self._jvm.death()
        if death is not None:
            if self._has_session:  # otherwise it could not even start
                self._jvm_death = death.seen_by(self)
            return death.error()
        return StreamlingError.wrap(error, "" if isinstance(error, StreamlingError) else "an internal error")

    def _move(self, phase: Phase) -> None:
        self._phase = phase
        self._on_change()
