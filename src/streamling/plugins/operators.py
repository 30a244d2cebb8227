"""The base classes of everything that runs in a pipeline. Built-in node types and plugins extend the same classes.

====================  =============================  ==========================================================
 class                 you write                      what the engine does around it
====================  =============================  ==========================================================
 `Source`              ``read``                       paces it, runs its batches, stores its position, commits
 `StreamedSource`      ``stream``, ``backfill``       the same; a `Stream` wakes the engine when there are rows
 `Transform`           ``process``                    batches rows, runs it in the driver or on executors
 `FrameTransform`      ``apply``                      fuses it with its neighbours into one Spark plan
 `Sink`                ``write``, ``flush``           a lane (thread, bounded queue) that orders writes and markers
 `FrameSink`           ``write_frame``                lets Spark itself write
====================  =============================  ==========================================================

**Life of an operator.** ``__init__(context)`` → ``schema()``/``output_schema()`` → ``open()`` → calls → ``close()``.
The constructor and the schema methods also run under ``--validate`` and ``--dry-run``: they may query a registry or
list files, but they must not write anything. ``open`` and everything after it run only when data is about to flow.
``close`` is called exactly once for every operator whose ``open`` returned, also after a failure; an ``open`` that
raises cleans up after itself.

**Threads.** One instance is never called from two threads at once. ``finalized`` and ``commit`` are called between data
calls, never during one.

**Errors.** Raise `StreamlingError` (``user``/``transient``) to choose the flags; any other exception fails the
pipeline as an internal error. The engine adds the node. For rows that can never be processed, call ``context.reject``
or raise a `BadRow`: with a dead-letter sink (`errors` in the pipeline file) the pipeline continues.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import NodeOptions
from streamling.plugins.connections import ConnectionCheck, ExternalPosition
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.partitioning import Partitioning
from streamling.types.row_kind import OP_COLUMN as OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext
    from streamling.sql.problems import SqlProblem

#: How far a source has been read: state key → JSON value. The engine stores it once everything before it is durable.
#: Only the source interprets it; equal positions mean the same place.
Position = Mapping[str, Any]

OptionsT = TypeVar("OptionsT", bound=NodeOptions)


class EmptyInputs(Protocol):
    """The upstreams of a node while the pipeline is analysed: DataFrames with the right columns and no rows."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the upstream nodes."""

    def apply(self, plan: Callable[[SparkSession, Mapping[str, DataFrame]], DataFrame]) -> DataFrame:
        """``plan`` over the upstreams, which are passed by name. Spark's errors are translated."""


class Operator(ABC, Generic[OptionsT]):
    """The base of all operators: typed options, and a life from ``open`` to ``close``."""

    #: the model of the node's fields in the pipeline file
    Options: ClassVar[type[NodeOptions]]
    #: in which section of the pipeline file its nodes are; set by the classes below
    node_kind: ClassVar[NodeKind | None] = None
    #: how the engine runs it; set by the classes below
    execution: ClassVar[ExecutionMode]
    #: whether instances may run on the executors of a cluster instead of in the driver
    distributable: ClassVar[bool] = False
    #: whether `parallelism` sets the number of instances where `partitioning` returns None; otherwise there is one
    scales_with_parallelism: ClassVar[bool] = True
    #: True for a source whose data is divided among the instances of the pipeline that share their state. Of any other
    #: source, each instance would read everything, so a pipeline with such a source runs once at a time.
    can_scale_out: ClassVar[bool] = False
    #: False for side outputs: nothing can read from them
    emits_rows: ClassVar[bool] = True
    #: whether its rows go to standard output, which is then kept free of everything else
    writes_to_stdout: ClassVar[bool] = False
    #: prefix under which rows and time are also recorded as those of a plan inside the node; None: there is none
    sub_plan_metrics: ClassVar[str | None] = None
    #: the metric under which the engine counts the rows of a source by their kind
    row_kind_metric: ClassVar[str | None] = None

    def __init__(self, context: NodeContext[OptionsT]) -> None:
        self.context = context
        self.options: OptionsT = context.options

    @classmethod
    def partitioning(cls, options: OptionsT) -> Partitioning | None:
        """How many instances may run in parallel and which rows each gets; called before any is created. None: a
        source has one instance; of a transform or sink there are as many as `parallelism` says, and rows are routed by
        primary key."""
        return None

    @classmethod
    def spark_packages(cls, options: OptionsT) -> frozenset[str]:
        """Spark packages (``avro``, ``kafka``) that a node with these options needs. Called before any instance is
        created: the JVM is started with them."""
        return frozenset()

    @classmethod
    def connections(
        cls, context: NodeContext[OptionsT], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        """What a node with these options connects to, for `validate --connect` and `doctor`. No instance is created,
        and no connection is made before `ConnectionCheck.check` is called. ``spark`` returns the session and starts a
        JVM: call it only in a ``check`` that needs it."""
        return ()

    @classmethod
    def external_positions(
        cls, context: NodeContext[OptionsT], spark: Callable[[], SparkSession]
    ) -> Sequence[ExternalPosition]:
        """Positions outside of the state backend that a node with these options continues from when the backend has
        none, for `state reset`. No instance is created, and no connection is made before `ExternalPosition.reset` is
        called; ``spark`` returns the session."""
        return ()

    @classmethod
    def needs_input_schema(cls) -> bool:
        """Whether `static_check` can only be called once the columns of the input are known."""
        return True

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        """Find errors without Spark. Returns them, and the output columns as far as they are known. ``inputs`` are the
        columns of the upstreams by node name; None where they are not known. Called once, before Spark has started. By
        default the output columns are those of the input."""
        return (), self.context.input_schema

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        """The output columns, once Spark has started; None: those of the input. Called once."""
        return None

    def open(self) -> None:
        """Connect, allocate, create tables. Called once, on the thread that makes the data calls."""

    def close(self) -> None:
        """Release all resources. Called once, also after a failure; must not raise for what is already closed."""

    def finalized(self, epoch: int) -> None:
        """Epoch ``epoch`` is complete: its positions are stored. May be called twice; epochs may be skipped."""

    def translate_error(self, error: Exception) -> StreamlingError | None:
        """Translate an error of a Spark plan that this operator is part of; None when the error is not about this
        operator. The source is asked first, then each transform downstream."""
        return None

    @property
    def is_deterministic(self) -> bool:
        """Whether Spark may run this operator's part of a plan twice for the same batch and get the same rows."""
        return False

    def batching(self) -> tuple[int | None, float | None]:
        """Rows per call, and how many seconds to wait for them at most; None: batches as they arrive, no limit. The
        engine collects and splits batches accordingly."""
        return self.options.rows_per_batch, self.options.flush_interval

    def labels(self) -> Mapping[str, str]:
        """Metric labels that identify what this operator connects to; they take precedence over labels of the file."""
        return {}


# ── sources ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SparkRead:
    """Rows that Spark reads by itself. ``frame`` is called before the source is asked for its next batch, and not after
    that."""

    frame: Callable[[SparkSession], DataFrame]
    #: how many there are; None: not known before they are read
    rows: int | None = None


@dataclass(frozen=True)
class SourceBatch:
    """Some rows and the position after them."""

    rows: pa.RecordBatch | pa.Table | SparkRead
    position: Position


@dataclass(frozen=True)
class Wait:
    """There is nothing to read now; the engine asks again after ``seconds`` (sooner when the pipeline stops)."""

    seconds: float


class End:
    """The source is exhausted and will never have more."""


END: Final = End()


@dataclass(frozen=True)
class Progress:
    """Progress of bounded work."""

    done: int
    total: int
    unit: str = "rows"
    #: the part of the work that this is about, if there are several
    part: str = ""


class AnySource(Operator[OptionsT]):
    """The base of both kinds of sources."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.SOURCE
    scales_with_parallelism: ClassVar[bool] = False
    #: True when the source ends by itself; needed for job mode and decides the drain policy.
    #: A property where it depends on options.
    bounded: bool = False

    @property
    def always_drains(self) -> bool:
        """Whether a stop stores the position of everything delivered, even with ``drain_policy: fast``. By default
        bounded sources do."""
        return self.bounded

    @property
    def is_deterministic(self) -> bool:
        """A source gives Spark the range of rows to read, so reading them again returns the same rows."""
        return True

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns of every batch. Called before Spark has started, on any thread. ``_gs_op`` is optional: the engine
        adds it with the value ``'i'``."""

    def inferred_primary_key(self) -> tuple[str, ...]:
        """Key columns that the source knows, used when the pipeline file does not set a primary key."""
        return ()

    def restore(self) -> Position:
        """The stored position (read with ``context.state``), or the configured start. Called once after
        ``open``, before the first batch. The default reads the entry under `NodeContext.state_key`."""
        stored = self.context.state.get(self.context.state_key)
        return {} if stored is None else {self.context.state_key: stored}

    def state_keys(self) -> Sequence[str]:
        """Keys that the position consists of, for `plan`; ``*`` replaces what only the data determines."""
        return self.context.state_keys

    def commit(self, position: Position) -> None:
        """Everything up to ``position`` is durable in all sinks and the position is stored. Commit it to the external
        system (a consumer group, a queue). May be called twice with the same position. A value of None means that
        another instance had claimed that key, so ours was not stored."""

    def caught_up(self) -> bool:
        """Whether everything that existed at the start has been read. Rows that look values up in a table wait until
        the source that fills it has caught up. Called between batches, only while rows wait. A source that returns
        `Wait` or `END` has caught up anyway."""
        return False

    def lag(self) -> int | None:
        """How many rows or messages have not been read yet, as last known; None when unknown. Called from any thread;
        must not block."""
        return None

    def progress(self) -> Progress | None:
        """How much of the known work has been read; None when unknown."""
        return None


class Source(AnySource[OptionsT]):
    """A source that the engine asks for batches."""

    execution: ClassVar[ExecutionMode] = ExecutionMode.PULLED

    @abstractmethod
    def read(self, position: Position) -> SourceBatch | Wait | End:
        """The next batch after ``position``, which the previous call (or `restore`) returned. Called repeatedly on the
        flow's thread until it returns `END`; not called while a sink is behind. Must not block for more than about a
        second: return `Wait`. After a restart, the same position must lead to the same rows."""


class StreamRestart(StreamlingError):
    """Returned by `Operator.translate_error` of a streamed source, or raised by `Stream.next`, when the stream cannot
    continue but a new one can: the flow calls `StreamedSource.stream` again from its position, after a pause if the
    error is retriable."""


@dataclass(frozen=True)
class StreamBatch(SourceBatch):
    """A batch of a stream."""

    #: how many rows or messages were read, for the status of a run; None: not known
    count: int | None = None
    #: what the plans of `Stream.local_plan` evaluate, if the batch is small; None: only Spark can read it
    messages: Any = None


@dataclass(frozen=True)
class LocalRows:
    """Rows in the driver's JVM that were computed without a Spark job."""

    #: a Java list of Spark's ``InternalRow``
    rows: Any
    count: int


class LocalPlan(Protocol):
    """A plan over the messages of a stream that the driver evaluates by itself: a Spark job takes tens of milliseconds,
    however few rows it has. Made once for a stream, used for each of its small batches, on the flow's thread. Errors
    are those of Spark's expressions."""

    def to_arrow(self, messages: Any) -> pa.RecordBatch:
        """The rows as Arrow data, with the types of ``DataFrame.toArrow``."""

    def to_rows(self, messages: Any) -> LocalRows:
        """The rows for `FrameSink.write_local`."""

    def observed(self) -> Mapping[str, Sequence[float | None]]:
        """The aggregates of the observations (``DataFrame.observe``) in the plan, by name, as of the last batch."""


class Stream(ABC):
    """The rows of a source from a position on. Its methods are called on the flow's thread, except `wake`."""

    #: where it starts: the position that it was created with, or another one if other instances read a part of the data
    position: Position

    @abstractmethod
    def next(self, timeout: float) -> StreamBatch | None:
        """Wait for the rows that follow those of the last batch, at most ``timeout`` seconds. None: there are none, or
        `wake` was called. Not called while a sink is behind. A batch whose delivery fails is not requested again: the
        stream is closed, and the next one starts before it."""

    @abstractmethod
    def wake(self) -> None:
        """End the current call of `next`, or the following one. Called on any thread when the flow has something else
        to do: a marker, a commit, a restart, the end."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Called once. The next stream reads again what this one has read but not returned."""

    def template(self) -> DataFrame | None:
        """A DataFrame without rows that has the plan of the rows: the engine adds SQL to it once and passes the result
        to `local_plan`. Called once. None: small batches are Spark jobs, too."""
        return None

    def local_plan(self, frame: DataFrame) -> LocalPlan | None:
        """The plan of ``frame``, which was made from the `template`, for the driver; None if it needs a Spark job."""
        return None


class StreamedSource(AnySource[OptionsT]):
    """A source that waits for rows by itself. One that is `bounded` ends after its `backfill`."""

    execution: ClassVar[ExecutionMode] = ExecutionMode.STREAMED

    def backfill(self, spark: SparkSession, position: Position) -> SourceBatch | Wait | End:
        """The next batch of the rows that precede the stream, as `Source.read` returns them: with the columns of
        `schema`. Called repeatedly on the flow's thread, from the restored position on, until it returns `END`; then
        the stream starts at the last position. The default has no such rows."""
        return END

    @abstractmethod
    def stream(self, spark: SparkSession, position: Position) -> Stream | None:
        """The rows right after ``position``. None: there is nothing to read until the source calls
        ``context.restart_stream``. Called on the flow's thread for each (re)start, and again after a pause if it raises
        a retriable error. If the node has a dead-letter sink, the rows have the column
        `streamling.plugins.rejects.REJECT_COLUMN`."""


# ── transforms ───────────────────────────────────────────────────────────────────────────────────────────────


ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True)
class AsyncCalls(Generic[ResponseT]):
    """A result that depends on calls to another system. The engine starts the calls, those of several batches
    concurrently, and passes the results on in the order of the batches; a marker waits for all calls before it."""

    #: each item starts one call; used once fewer than ``max_in_flight`` calls of this instance are in flight
    starts: Iterator[Callable[[], Future[ResponseT]]]
    #: makes the rows from all responses, in the order of the calls
    result: Callable[[Sequence[ResponseT]], pa.RecordBatch]
    max_in_flight: int


class Transform(Operator[OptionsT]):
    """Rows in, rows out, as Arrow."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.TRANSFORM
    execution: ClassVar[ExecutionMode] = ExecutionMode.LANE
    distributable: ClassVar[bool] = True

    def check(self) -> None:
        """Raise for errors in the options that can be found without the input columns. Called once, before Spark has
        started; if the input schema is not known yet, it is empty."""

    @classmethod
    def needs_input_schema(cls) -> bool:
        return cls.check is Transform.check

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        self.check()
        return (), self.output_schema() if self.context.input_schema.names else None

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        return self.output_schema()

    @abstractmethod
    def output_schema(self) -> pa.Schema:
        """Columns of what `process` returns; depends only on the options and ``context.input_schema``."""

    @abstractmethod
    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch | AsyncCalls[Any]:
        """Called once per batch, never with an empty one; may return any number of rows, or the calls that they
        depend on. Must be a stateless function of its argument: after a crash, the same rows are replayed in different
        batches."""

    def with_input_schema(self, schema: pa.Schema) -> Transform[OptionsT]:
        """An instance for rows with other columns, since a source may get new ones while the pipeline runs. The engine
        opens it and closes this one; meanwhile no call is in flight."""
        return type(self)(replace(self.context, input_schema=schema))

    def marker(self, epoch: int) -> None:
        """All rows of ``epoch`` have been processed by this instance."""


class FrameTransform(Operator[OptionsT]):
    """A transform that compiles to Spark. SQL is the only one."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.TRANSFORM
    execution: ClassVar[ExecutionMode] = ExecutionMode.SPARK
    sub_plan_metrics: ClassVar[str | None] = "df_"

    @property
    def per_batch(self) -> bool:
        """Whether every batch needs its own plan, so that the driver cannot evaluate it for small batches."""
        return False

    @abstractmethod
    def apply(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The transform over its upstreams' DataFrames, by node name. Called for each batch that Spark computes, once
        per stream for those that the driver evaluates, and once with empty inputs to learn the schema."""

    def apply_batch(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DataFrame],
        numbered: Callable[[], Mapping[str, DataFrame]],
    ) -> DataFrame:
        """The transform over one batch; called once for each. ``numbered`` returns the inputs with a column that
        numbers the rows of the batch (`streamling.sql.plan.ROW`). A row keeps its number however often Spark runs the
        plan, so the transform may run its own Spark jobs over them; this can be expensive."""
        return self.apply(spark, inputs)

    @classmethod
    def needs_input_schema(cls) -> bool:
        return False

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        return (), None

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        from streamling.types.spark import to_arrow_schema

        return to_arrow_schema(inputs.apply(self.apply).schema)


# ── sinks ────────────────────────────────────────────────────────────────────────────────────────────────────


class Acknowledge(Protocol):
    """Reports that everything before a marker is durable."""

    def __call__(self, entries: Mapping[str, Any] = ..., /) -> None:
        """``entries``, state key → JSON value, are stored in the same transaction as the positions: they exist exactly
        when the epoch is final. Keys begin with the node's name."""


class Sink(Operator[OptionsT]):
    """Takes Arrow batches. After ``flush`` returns, everything written before is durable."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.SINK
    execution: ClassVar[ExecutionMode] = ExecutionMode.LANE
    #: True when instances may run on Spark's executors, each writing its own share of the keys.
    #: A sink whose output belongs to this process (a terminal, a Python list) stays in the driver.
    distributable: ClassVar[bool] = False
    #: rows after which the pipeline ends, over all instances; None: no limit
    row_limit: int | None = None

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Called on the lane's thread in source order, never with an empty batch. May buffer."""

    def flush(self) -> None:
        """Make everything written so far durable, or raise. Called before each acknowledgement."""

    def on_first_marker(self, epoch: int) -> None:
        """The first of several feeders (flows of a UNION ALL, instances of a transform) has sent its marker of
        ``epoch``: rows from now on may belong to this epoch or to the next one."""

    def marker(self, epoch: int, acknowledge: Acknowledge) -> None:
        """All rows of ``epoch`` have been written. Call ``acknowledge`` once they are durable: immediately, as the
        default does after `flush`, or later from any thread. An epoch that is not acknowledged fails the pipeline after
        `checkpoint_timeout_sec`."""
        self.flush()
        acknowledge()


class FrameSink(Operator[OptionsT]):
    """A sink that Spark writes by itself, without the rows passing through Python."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.SINK
    execution: ClassVar[ExecutionMode] = ExecutionMode.SPARK
    #: True when `write_frame` returns the number of rows. Otherwise Spark counts them for the engine, which takes
    #: 0.04 to 0.25 µs per row.
    counts_rows: ClassVar[bool] = False

    def write_arrow(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Write rows that are already in Python, durably; False: pass them as a DataFrame instead."""
        return False

    def prepare(self, frame: DataFrame) -> DataFrame:
        """What the sink changes about the rows (columns it drops or adds), as a plan. Called once per batch, so that it
        runs in the same pass as the SQL."""
        return frame

    @abstractmethod
    def write_frame(self, frame: DataFrame) -> int | None:
        """Write all rows of a prepared frame durably before returning. Called once per batch. Returns the number of
        rows if the sink `counts_rows`."""

    def prepare_local(self, frame: DataFrame) -> DataFrame | None:
        """What `write_local` takes, as a plan over the rows of a stream. Called once per stream. None: the sink does
        not write small batches itself."""
        return None

    def write_local(self, rows: LocalRows) -> None:
        """Write the rows of a small batch durably before returning, without a Spark job. Called instead of
        `write_frame`, on the same thread, if the driver can evaluate the plan of `prepare_local`."""
        raise NotImplementedError(f"{type(self).__name__} has no write_local")
