"""Sources that wait for rows by themselves, and the streams that they read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import OptionsT
from streamling.plugins.sources import END, AnySource, End, Position, SourceBatch, Wait

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class StreamRestart(StreamlingError):
    """Returned by `Operator.translate_error` of a streamed source, or raised by `Stream.next`, when the stream cannot
    continue but a new one can: the flow calls `StreamedSource.stream` again from its position, after a pause if the
    error is retriable."""


@dataclass(frozen=True)
class StreamBatch(SourceBatch):
    """A batch of a stream."""

    #: how many rows or messages were read, for the status of a run; None: not known
    count: int | None = None
    #: what the steps of `SmallBatches` have done in one or more small batches; None: only Spark can read the rows
    results: Sequence[StepResult] | None = None
    #: what the last step has failed with; its batch is not part of the position
    failure: StepFailure | None = None
    #: what `LocalPlan.to_arrow` takes to evaluate other plans over the last of these batches
    messages: Any = None
    #: seconds of work for it before `Stream.next` returned it
    busy: float = 0.0
    #: CPU time that the JVM has used for it, as far as that is known
    cpu_seconds: float = 0.0
    #: whether further small batches are being delivered: then the flow does nothing but to ask for them, until it calls
    #: `Stream.wake`
    continues: bool = False


@dataclass(frozen=True)
class LocalRows:
    """Rows in the driver's JVM that were computed without a Spark job."""

    #: a Java list of Spark's ``InternalRow``
    rows: Any
    count: int


class LocalPlan(Protocol):
    """A plan over the messages of a stream that the driver evaluates without a Spark job: a job takes tens of
    milliseconds, however few rows it has. Made once for a stream, used for each of its small batches. Errors are those
    of Spark's expressions."""

    def to_arrow(self, messages: Any) -> pa.RecordBatch:
        """Return the rows as Arrow data, with the types of ``DataFrame.toArrow``."""


@dataclass(frozen=True)
class LocalStep:
    """A plan that is evaluated over each small batch of a stream, and where its rows go."""

    plan: LocalPlan
    #: the `FrameSink.local_writer` that takes the rows; None: they come to Python as Arrow data
    writer: Any = None


@dataclass(frozen=True)
class StepResult:
    """What a step has done in the batches of one `Stream.next`."""

    #: rows for Python: of the last batch, because it ends the call
    batch: pa.RecordBatch | None = None
    #: rows that the writer has taken, and how many of them it has sent
    rows: int = 0
    sent: int = 0
    #: rows with which the writer has failed
    unwritten: LocalRows | None = None
    plan_seconds: float = 0.0
    write_seconds: float = 0.0
    #: the observations (``DataFrame.observe``) in the plan: name and aggregates, a name may occur twice
    observed: Sequence[tuple[str, Sequence[float | None]]] = ()


@dataclass(frozen=True)
class StepFailure:
    """A plan of a step that could not be evaluated."""

    step: int
    error: Exception


class SmallBatches(Protocol):
    """How small batches are evaluated; the engine passes it to `Stream.evaluate`."""

    def steps(self) -> Sequence[LocalStep] | None:
        """Return what is done with each small batch, in this order; None: each is a Spark job. Compiled in the first
        call, so call it before small batches, but not before a backlog."""

    @property
    def interval(self) -> float:
        """For how many seconds batches may follow each other before `Stream.next` returns them; 0: it returns each, and
        nothing is delivered until the next call."""


@dataclass(frozen=True)
class NeedsJob:
    """The driver cannot evaluate a plan: each batch is a Spark job."""

    #: why, such as "it contains a subquery"
    reason: str
    #: what the user can do about it
    remedy: str = "change this node"


class Stream(ABC):
    """The rows of a source from a position on. Its methods are called by the flow, one after another, except `wake`."""

    #: where it starts: the position that it was created with, or another one if other instances read a part of the data
    position: Position
    #: what `next` may use to evaluate small batches
    small: SmallBatches | None = None
    #: to be called on any thread when `next` has something to return after a `Wait`
    on_ready: Callable[[], None]

    def start(self, small: SmallBatches, on_ready: Callable[[], None]) -> None:
        """Let `next` evaluate small batches, as ``small`` says, and report rows to ``on_ready``. Called once, before
        `next`. A stream that does not use ``small`` returns rows for Spark, or Arrow data."""
        self.small, self.on_ready = small, on_ready

    @abstractmethod
    def next(self) -> StreamBatch | Wait | None:
        """Return the rows that follow those of the last batch. `Wait`: there are none yet; the flow calls again after
        these seconds, or when `on_ready` is called. Small batches may be delivered meanwhile. None: nothing is being
        delivered, because `wake` was called. Not called while a sink is behind. If the source has its `own_thread`, it
        may also wait here until there are rows or `wake` is called. A batch whose delivery fails is not requested
        again: the stream is closed, and the next one starts before it."""

    @abstractmethod
    def wake(self) -> None:
        """Let `next` return None, or a last batch, as soon as nothing is being delivered, and call `on_ready` then.
        Called on any thread when the flow has something else to do: a marker, a commit, a restart, the end."""

    @property
    def shared_with(self) -> int:
        """The number of other streams of the process for which the same rows are read once; for people."""
        return 0

    def is_evaluating(self) -> bool:
        """Return whether a step is being evaluated, also after the JVM has died because of it."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Called once. The next stream reads again what this one has read but not returned."""


class StreamedSource(AnySource[OptionsT]):
    """A source that waits for rows by itself. One that is `bounded` ends after its `backfill`."""

    execution: ClassVar[ExecutionMode] = ExecutionMode.STREAMED

    def backfill(self, spark: SparkSession, position: Position) -> SourceBatch | Wait | End:
        """Return the next batch of the rows that precede the stream, as `Source.read` returns them: with the columns of
        `schema`. Called repeatedly by the flow, from the restored position on, until it returns `END`; then the stream
        starts at the last position. The default has no such rows."""
        return END

    @abstractmethod
    def stream(self, spark: SparkSession, position: Position) -> Stream | None:
        """Return the rows right after ``position``. None: there is nothing to read until the source calls
        ``context.restart_stream``. Called by the flow for each (re)start, and again after a pause if it raises a
        retriable error. If the node has a dead-letter sink, the rows have the column
        `streamling.plugins.rejects.REJECT_COLUMN`."""

    def template(self, spark: SparkSession) -> DataFrame | None:
        """Return a DataFrame without rows that has the plan of the stream's rows: the engine adds SQL to it and passes
        the result to `local_plan`. Called once for each stream, and before the start if the source `is_realtime`. None:
        small batches are Spark jobs, too."""
        return None

    def local_plan(self, frame: DataFrame) -> LocalPlan | NeedsJob:
        """Return the plan of ``frame``, which was made from the `template`, for the driver."""
        return NeedsJob("its source has no plan for the driver")
