"""The protocols of everything that runs in a pipeline. Built-ins and plugins are written on the same classes.

====================  =============================  ==========================================================
 class                 you write                      what the engine does around it
====================  =============================  ==========================================================
 `Source`              ``read``                       paces it, runs its batches, stores its position, commits
 `StreamedSource`      ``stream``                     the same, paced by Spark Structured Streaming
 `Transform`           ``process``                    batches rows, runs it in the driver or on executors
 `FrameTransform`      ``apply``                      fuses it with its neighbours into one Spark plan
 `Sink`                ``write``, ``flush``           a lane (thread, bounded queue) that orders writes and markers
 `FrameSink`           ``write_frame``                lets Spark itself write
====================  =============================  ==========================================================

**Life of an operator.** ``__init__(context)`` → ``schema()``/``output_schema()`` → ``open()`` → calls → ``close()``.
The constructor and the schema methods also run under ``--validate`` and ``--dry-run``: they may ask a registry or
list files, they must not write anywhere. ``open`` and everything after run only when data is about to flow.
``close`` is called exactly once for every operator whose ``open`` returned, also after a failure; an ``open`` that
raises cleans up after itself.

**Threads.** One instance is never called from two threads at once. ``finalized`` and ``commit`` come between data
calls, never during one.

**Errors.** Raise `StreamlingError` (``user``/``transient``) to choose the flags; any other exception fails the
pipeline as an internal error. The engine adds the node's name. Rows that can never be used are given to
``context.reject``, or a `BadRow` is raised: with a dead-letter sink (`errors` of the file) the pipeline goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.pipeline.options import NodeOptions
from streamling.plugins.connections import Connection, ExternalPosition
from streamling.plugins.partitioning import Partitioning
from streamling.types.row_kind import OP_COLUMN as OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext
    from streamling.sql.problems import SqlProblem

#: Where a source stands: what the engine stores, state key → JSON value, once everything before it is durable.
#: The source alone gives it a meaning; equal positions mean the same place.
Position = Mapping[str, Any]

OptionsT = TypeVar("OptionsT", bound=NodeOptions)


class Operator(ABC, Generic[OptionsT]):
    """What all operators share: typed options, and a life from ``open`` to ``close``."""

    #: the model of the node's fields in the pipeline file
    Options: ClassVar[type[NodeOptions]]
    #: whether rows reach the operator as Arrow batches or as Spark DataFrames; set by the classes below
    runs_on: ClassVar = "arrow"
    #: False for side outputs: nothing can read from them
    emits_rows: ClassVar[bool] = True
    #: whether its rows go to standard output, which is then kept free of everything else
    writes_to_stdout: ClassVar[bool] = False
    #: prefix under which rows and time are told as those of a plan inside the node, too; None: there is no such plan
    sub_plan_metrics: ClassVar[str | None] = None

    def __init__(self, context: NodeContext[OptionsT]) -> None:
        self.context = context
        self.options: OptionsT = context.options

    @classmethod
    def partitions(cls, options: OptionsT) -> Partitioning | None:
        """How many instances may run side by side and which rows each gets; asked before any is made. None: a
        source runs once, a transform or sink as often as `parallelism` says, divided by primary key."""
        return None

    @classmethod
    def spark_packages(cls, options: OptionsT) -> frozenset[str]:
        """Spark connectors (``avro``, ``kafka``) that a node with these options needs. Asked before any instance is
        made: the JVM starts with them."""
        return frozenset()

    @classmethod
    def connections(cls, context: NodeContext[OptionsT], spark: Callable[[], SparkSession]) -> Sequence[Connection]:
        """What a node with these options connects to, for `validate --connect` and `doctor`. No instance is made, and
        nothing is connected before `Connection.check` is called. ``spark`` gives the session, which starts a JVM: only
        for a ``check`` that cannot do without."""
        return ()

    @classmethod
    def external_positions(
        cls, context: NodeContext[OptionsT], spark: Callable[[], SparkSession]
    ) -> Sequence[ExternalPosition]:
        """Where a node with these options goes on from when the state backend knows nothing, for `state reset`. No
        instance is made, and nothing is connected before `ExternalPosition.forget` is called; ``spark`` gives the
        session."""
        return ()

    def open(self) -> None:
        """Connect, allocate, create tables. Called once, on the thread that makes the data calls."""

    def close(self) -> None:
        """Let go of everything. Called once, also after a failure; must not raise for what is already gone."""

    def finalized(self, epoch: int) -> None:
        """Epoch ``epoch`` is complete: its positions are stored. May come twice, epochs may be skipped."""

    def translate_error(self, error: Exception) -> StreamlingError | None:
        """Spark failed while running a plan this operator is part of: the error in the user's terms when it is
        about this operator, None when it is not. The source is asked first, then each transform downwards."""
        return None

    @property
    def is_deterministic(self) -> bool:
        """Whether Spark may run this operator's part of a plan twice for the same batch and get the same rows."""
        return False

    def batching(self) -> tuple[int | None, float | None]:
        """Rows per call and the longest wait for them in seconds; None: as they come, no limit. The engine collects
        and cuts batches accordingly."""
        return self.options.rows_per_batch, self.options.flush_interval

    def labels(self) -> Mapping[str, str]:
        """Metric labels that identify what this operator talks to; they win over labels of the file."""
        return {}


# ── sources ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SparkRead:
    """Rows that Spark reads by itself: a recipe instead of data. It is followed before the source is asked for its next
    batch, and not after that."""

    frame: Callable[[SparkSession], DataFrame]
    #: how many there are; None: not known before they are read
    rows: int | None = None


@dataclass(frozen=True)
class SourceBatch:
    """Some rows and where the source stands after them."""

    rows: pa.RecordBatch | pa.Table | SparkRead
    position: Position


@dataclass(frozen=True)
class Wait:
    """Nothing to read now; ask again after ``seconds`` (sooner when the pipeline stops)."""

    seconds: float


class End:
    """The source is exhausted and will never have more."""


END: Final = End()


@dataclass(frozen=True)
class Progress:
    """How far bounded work has come."""

    done: int
    total: int
    unit: str = "rows"


class AnySource(Operator[OptionsT]):
    """What both pacings share."""

    #: True when instances of the pipeline that share their state divide the data among themselves. Each of them would
    #: read all of any other source, so a pipeline with one runs once at a time.
    can_scale_out: ClassVar[bool] = False
    #: True when the source ends by itself; needed for job mode and decides the drain policy.
    #: A property where it depends on options.
    bounded: bool = False

    @property
    def is_deterministic(self) -> bool:
        """What a source hands to Spark names the rows to read; a position leads to the same rows again."""
        return True

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns of every batch. Called before Spark is there, on any thread. ``_gs_op`` is optional: the
        engine appends it as ``'i'`` when missing."""

    def inferred_primary_key(self) -> tuple[str, ...]:
        """Key columns that the source itself knows of, used when the file names none."""
        return ()

    def restore(self) -> Position:
        """The stored position (read with ``context.state``), or the configured start. Called once after
        ``open``, before the first batch. The default reads the entry under `NodeContext.state_key`."""
        stored = self.context.state.get(self.context.state_key)
        return {} if stored is None else {self.context.state_key: stored}

    def state_keys(self) -> Sequence[str]:
        """Keys that the position consists of, for people who look at a plan; ``*`` stands for what only the data
        can tell."""
        return self.context.state_keys

    def commit(self, position: Position) -> None:
        """Everything up to ``position`` is durable in all sinks and the position is stored. Tell the outside
        (a consumer group, a queue). May be called twice with the same position. A value of None: another instance
        had claimed that key, and ours was not stored."""

    def caught_up(self) -> bool:
        """Whether everything that was there at the start has been read; tables that this source fills are asked after
        that. Asked between batches, only when somebody waits. A source that returns `Wait` or `END` has caught up
        anyway."""
        return False

    def lag(self) -> int | None:
        """How many rows or messages wait to be read, as last known; None when the source does not know. Called from any
        thread and must not wait."""
        return None

    def progress(self) -> Progress | None:
        """How much of the known work has been read; None when unknown."""
        return None


class Source(AnySource[OptionsT]):
    """A source that is asked for its next batch."""

    pacing: ClassVar = "pull"

    @abstractmethod
    def read(self, position: Position) -> SourceBatch | Wait | End:
        """The next batch after ``position``, which is what the previous call returned (or `restore`).
        Called again and again on the flow's thread until it returns `END`; not called while a sink is behind.
        Must not block longer than about a second: return `Wait`. After a restart the same position must lead
        to the same rows."""


class StreamRestart(StreamlingError):
    """What `Operator.translate_error` of a streamed source returns when the query cannot go on but a new one can: the
    flow calls `StreamedSource.stream` again from its position, after a pause when the error is retriable."""


@dataclass(frozen=True)
class PositionedStream:
    """A stream that does not start where the flow stands, because others read a part of the data."""

    frame: DataFrame
    position: Position


class StreamedSource(AnySource[OptionsT]):
    """A source that Spark Structured Streaming paces."""

    pacing: ClassVar = "stream"

    @abstractmethod
    def stream(self, spark: SparkSession, position: Position) -> DataFrame | PositionedStream | None:
        """A streaming DataFrame that starts right after ``position``, or says itself where. None: nothing to read
        before the source calls ``context.restart_stream``. Called once per (re)start of the query; called again
        after a pause when it raises a retriable error. Where the node has a dead-letter sink, the DataFrame has the
        column `streamling.plugins.rejects.REJECT_COLUMN`."""

    def rows_between(self, before: Position, after: Position) -> int | None:
        """How many rows lie between two positions, for people who watch a run; None when the source cannot tell."""
        return None

    @abstractmethod
    def position_after(self, offset: str, previous: Position) -> Position:
        """The position that Spark's logged end offset of a batch (JSON text) stands for."""


# ── transforms ───────────────────────────────────────────────────────────────────────────────────────────────


ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True)
class AsyncCalls(Generic[ResponseT]):
    """A result that depends on answers from elsewhere. The engine starts the calls, those of several batches side by
    side, and passes the results on in the order of the batches; a marker waits for all calls before it."""

    #: each starts one call when it is called, once fewer than ``max_in_flight`` calls of this instance are under way
    starts: Iterator[Callable[[], Future[ResponseT]]]
    #: makes the rows out of all answers, in the order of the calls
    result: Callable[[Sequence[ResponseT]], pa.RecordBatch]
    max_in_flight: int


class Transform(Operator[OptionsT]):
    """Rows in, rows out, as Arrow."""

    runs_on: ClassVar = "arrow"

    def check(self) -> None:
        """Raise for mistakes in the options that need no columns to be seen. Called once, before Spark is there; the
        input schema may not be known yet and is empty then."""

    @abstractmethod
    def output_schema(self) -> pa.Schema:
        """Columns of what `process` returns, known from the options and ``context.input_schema``."""

    @abstractmethod
    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch | AsyncCalls[Any]:
        """Called once per batch, never with an empty one; may return any number of rows, or the calls that they
        depend on. A stateless function of its argument: after a crash the same rows come again, cut into other
        batches."""

    def with_input_schema(self, schema: pa.Schema) -> Transform[OptionsT]:
        """An instance for rows with other columns: a source may gain some while the pipeline runs. The engine opens it
        and closes this one; between the two no call is under way."""
        return type(self)(replace(self.context, input_schema=schema))

    def marker(self, epoch: int) -> None:
        """All rows of ``epoch`` have been processed by this instance."""


class FrameTransform(Operator[OptionsT]):
    """A transform that compiles to Spark. SQL is the only one."""

    runs_on: ClassVar = "spark"
    sub_plan_metrics: ClassVar[str | None] = "df_"

    @property
    def per_batch(self) -> bool:
        """Whether every batch needs a plan of its own, so that the transform cannot be part of a streaming one."""
        return False

    @abstractmethod
    def apply(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The transform over its upstreams' DataFrames, by node name. Called once per query for streamed sources, and
        once with empty inputs to learn the schema."""

    def apply_batch(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DataFrame],
        numbered: Callable[[], Mapping[str, DataFrame]],
    ) -> DataFrame:
        """The transform over one batch, once for each. ``numbered`` gives the inputs with a column that tells a row's
        place in the batch (`streamling.sql.plan.ROW`); the same row has the same number however often Spark runs the
        plan, which may cost something: the transform may run Spark jobs of its own over them."""
        return self.apply(spark, inputs)

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        """What is wrong that can be seen without Spark, and the output columns as far as known. None for an
        input whose columns are not known."""
        return (), None


# ── sinks ────────────────────────────────────────────────────────────────────────────────────────────────────


class Acknowledge(Protocol):
    """Says that everything before a marker is durable."""

    def __call__(self, entries: Mapping[str, Any] = ..., /) -> None:
        """``entries``, state key → JSON value, are stored in the same transaction as the positions: they are there
        exactly when the epoch is final. Keys begin with the node's name."""


class Sink(Operator[OptionsT]):
    """Takes Arrow batches. After ``flush`` returns, everything written before is durable."""

    runs_on: ClassVar = "arrow"
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
        """One of several feeders (flows of a UNION ALL, instances of a transform) has sent its marker of ``epoch``,
        others have not: rows from now on may belong to this epoch or to the next one."""

    def marker(self, epoch: int, acknowledge: Acknowledge) -> None:
        """All rows of ``epoch`` have been written. Call ``acknowledge`` once they are durable: now, as the default
        does after `flush`, or later and from any thread. An epoch that is never acknowledged fails the pipeline
        after `checkpoint_timeout_sec`."""
        self.flush()
        acknowledge()


class FrameSink(Operator[OptionsT]):
    """A sink that Spark writes by itself, without the rows passing through Python."""

    runs_on: ClassVar = "spark"
    #: True when `write_frame` returns the number of rows. Otherwise Spark counts them for the engine, which takes
    #: 0.04 to 0.25 µs per row.
    counts_rows: ClassVar[bool] = False

    def write_arrow(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Take rows that are in Python already, durably; False: not here, hand them over as a DataFrame."""
        return False

    def prepare(self, frame: DataFrame) -> DataFrame:
        """What the sink changes about the rows (columns it drops or makes), as a plan. Called once per batch, or
        once per query where a stream has no other consumer, so that it runs in the same pass as the SQL."""
        return frame

    @abstractmethod
    def write_frame(self, frame: DataFrame) -> int | None:
        """Write all rows of a prepared frame durably before returning. Called once per batch. Returns the number of
        rows of the frame where the sink `counts_rows`."""
