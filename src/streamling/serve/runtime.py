"""The boundary between control (catalogue, API, reconciler) and data plane: where pipelines run.

The reconciler decides what runs, a `PipelineRuntime` runs it: on threads of this process (`shared_runtime.py`), or in a
process of its own (`process_runtime.py`). A client pauses a pipeline; the reconciler then unloads it: its position is
stored, and it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from streamling.observe.rate_history import RunCounts
from streamling.serve.model import PipelineRecord

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from streamling.observe.telemetry.metrics import Series


class Phase(StrEnum):
    """What a runtime does with a pipeline."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(frozen=True)
class Preview:
    """How a pipeline is previewed: without its sinks, and without changing anything."""

    #: rows of every node that are kept; None: as many as the configuration says
    rows: int | None
    #: Spark packages that it needs
    spark_packages: Sequence[str] = ()


@dataclass(frozen=True)
class JvmDeath:
    """The JVM that pipelines share has ended, from the point of view of one of them."""

    #: whether it was evaluating something for this pipeline
    evaluating: bool
    #: whether all others for which it was evaluating something had worked on this JVM before
    alone: bool


@dataclass(frozen=True)
class Report:
    """The phase of a pipeline, and why."""

    phase: Phase
    #: whether all nodes are connected: the first checkpoint since the start is complete
    ready: bool = False
    reason: str = ""
    #: why it ended, without secrets; empty if it has finished or was unloaded
    error: str = ""
    remedy: str = ""
    #: the node that failed; empty if it is none, or not known
    node: str = ""
    retriable: bool = False
    #: whether rows of this run are stored: Spark can run its queries
    proven: bool = False
    #: why it ended, if the JVM of several pipelines did
    jvm_death: JvmDeath | None = None


@dataclass(frozen=True)
class Measures:
    """What a pipeline has done and costs; None means unknown."""

    #: rows per sink since the start that its target has acknowledged
    rows: Mapping[str, int] = field(default_factory=dict)
    #: their sum without those of dead-letter sinks, and that of dead-letter sinks
    rows_out: int = 0
    dead_letters: int = 0
    rows_in: int | None = None
    #: rows that the sources have not read yet
    lag: int | None = None
    epoch: int | None = None
    #: seconds since the last checkpoint
    checkpoint_age: float | None = None
    #: Python threads that work for it, and the CPU time that it has used, without that of Spark jobs
    threads: int | None = None
    cpu_seconds: float | None = None
    #: other streams of the process for which the rows of a source are read once
    shared_with: int = 0


class PipelineHandle(Protocol):
    """A loaded pipeline. All methods may be called from any thread; only `metrics` and
    `checkpoint` block."""

    def report(self) -> Report:
        """Return the current phase. ``ENDED`` is final: nothing of the pipeline runs any more."""

    def measure(self) -> Measures:
        """Return the numbers for people; may be called in any phase."""

    def counts(self) -> RunCounts | None:
        """Return the rows of the pipeline and its nodes since the start, also after its end; None if it has not
        started."""

    def routes(self) -> ASGIApp | None:
        """Return the routes that show what the pipeline does (`serve/admin/routes.py`, `reading_routes`); None before
        it has started."""

    def metrics(self, timeout: float) -> Sequence[Series] | None:
        """Return everything that its nodes have measured; None if that took longer than ``timeout`` seconds."""

    def unload(self) -> None:
        """Request a drain: work in progress is finished, the position is stored. The phase becomes ``ENDED``."""

    def checkpoint(self, timeout: float) -> bool:
        """Store everything delivered so far; False if that took longer than ``timeout`` seconds."""


class PipelineRuntime(Protocol):
    """Runs pipelines."""

    def load(
        self, record: PipelineRecord, on_change: Callable[[], None], preview: Preview | None = None
    ) -> PipelineHandle:
        """Start a pipeline and return immediately, before it has been checked. ``on_change`` is called from any thread
        after each change of its report and must not block."""

    def close(self) -> None:
        """Release everything; called once, when no pipeline is loaded any more."""
