"""One run as the admin API shows and controls it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from streamling.engine.run.memory import python_megabytes
from streamling.engine.run.run import PipelineRun
from streamling.engine.run.topology import Topology
from streamling.errors import StreamlingError
from streamling.observe.live_rows import LiveRows
from streamling.observe.rate_history import RateHistory, RunCounts
from streamling.observe.telemetry.metrics import Series
from streamling.redaction import redact


class ObservedRun:
    """All methods may be called from any thread."""

    def __init__(
        self, run: PipelineRun, *, name: str, application_id: str, jvm_megabytes: Callable[[], float | None]
    ) -> None:
        self._run = run
        self._name = name
        self._application_id = application_id
        self._jvm_megabytes = jvm_megabytes
        self._topology = Topology(run)
        self._history = RateHistory()
        self._lock = threading.Lock()

    @property
    def live_rows(self) -> LiveRows:
        return self._run.observer.live_rows

    @property
    def state(self) -> str:
        run = self._run
        if run.failure is not None:
            return "failed"
        if run.has_ended:
            return "finished"
        if run.is_stopping or run.stop_reason is not None:
            return "draining"
        if run.started_at is None:
            return "starting"
        return "paused" if run.is_paused else "running"

    @property
    def has_ended(self) -> bool:
        return self._run.has_ended

    @property
    def is_ready(self) -> bool:
        """Whether every node is connected: the first checkpoint is complete, and no node retries."""
        run = self._run
        return self.state in ("running", "paused") and run.epoch is not None and not run.retrying.errors

    def topology(self, *, full: bool = True) -> dict[str, Any]:
        """Return nodes and edges with their numbers; without ``full``, what never changes is left out."""
        status, started = self._run.status(), self._run.started_at
        with self._lock:
            parts = self._topology.nodes_and_history(full=full)
        return {
            "pipeline": self._name,
            "application_id": self._application_id,
            "state": self.state,
            "live": True,
            "measured_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "started_at": None if started is None else started.isoformat(timespec="milliseconds"),
            "epoch": status.epoch,
            "checkpoint_age_s": None if status.checkpoint_age is None else round(status.checkpoint_age, 1),
            "memory": {"python_mb": python_megabytes(), "jvm_mb": self._jvm_megabytes()},
            "error": self.error(),
            **parts,
        }

    def counts(self) -> RunCounts:
        """Return the counts of the run and of its nodes so far."""
        return self._topology.counts()

    def record(self, now: float) -> None:
        """Add the counts to the history; for a run without another observer."""
        self._history.add(now, self.counts())

    def history(self, buckets: int, node: str | None) -> dict[str, Any]:
        """Return rates and lag of the run, or of a node, in the last ``buckets`` of ten seconds."""
        return self._history.series(time.time(), buckets, node)

    def epochs(self, limit: int) -> list[dict[str, Any]]:
        """Return the last epochs, newest first."""
        return [record.as_object() for record in self._run.observer.epochs.recent(limit)]

    def error(self) -> dict[str, Any] | None:
        """Return why the run has failed; None if it has not."""
        failure = self._run.failure
        return None if failure is None else error_object(failure)

    def dead_letters(self, node: str | None, limit: int) -> list[dict[str, Any]]:
        """Return the last rejected rows, newest first."""
        return [row.as_object() for row in self._run.observer.dead_letters.recent(node, limit)]

    def has_node(self, name: str) -> bool:
        return any(node.name == name for node in self._run.pipeline)

    def columns(self, name: str) -> pa.Schema | None:
        """Return the columns of a node's rows; None if they are not known yet."""
        analysis = self._run.analysis
        planned = None if analysis is None else analysis.nodes.get(name)
        return None if planned is None else planned.schema

    def upstreams(self, name: str) -> tuple[str, ...]:
        """Return the nodes whose rows ``name`` takes."""
        return self._run.pipeline[name].upstreams

    def measurements(self) -> list[Series]:
        """Return everything measured so far. From the first call on, rows inside plans of Spark are counted, too."""
        self._run.count_in_spark()
        return self._run.metrics.snapshot()

    def pause(self) -> None:
        self._run.pause()

    def resume(self) -> None:
        self._run.pause(False)

    def checkpoint(self) -> None:
        """Request a checkpoint; returns immediately."""
        self._run.checkpoint(0)


def error_object(error: StreamlingError) -> dict[str, Any]:
    """Return ``error`` as the admin API shows it."""
    return {
        "node": None if error.node is None else error.node.name,
        "message": redact(error.with_causes),
        "internal": error.internal,
        "retriable": error.retriable,
        "remedy": None if error.remedy is None else redact(error.remedy),
    }
