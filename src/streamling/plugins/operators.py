"""The base class of everything that runs in a pipeline. Built-in node types and plugins extend the same classes, which
are in `sources`, `streams`, `transforms` and `sinks` of this package.

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

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import NodeOptions
from streamling.plugins.connections import ConnectionCheck, ExternalPosition
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.partitioning import Partitioning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext
    from streamling.sql.problems import SqlProblem

OptionsT = TypeVar("OptionsT", bound=NodeOptions)


class EmptyInputs(Protocol):
    """The upstreams of a node while the pipeline is analysed: DataFrames with the right columns and no rows."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the upstream nodes."""

    def apply(self, plan: Callable[[SparkSession, Mapping[str, DataFrame]], DataFrame]) -> DataFrame:
        """Return ``plan`` over the upstreams, which are passed by name. Spark's errors are translated."""


class Operator(ABC, Generic[OptionsT]):
    """The base of all operators: typed options, and a life from ``open`` to ``close``."""

    #: the model of the node's fields in the pipeline file
    Options: ClassVar[type[NodeOptions]]
    #: in which section of the pipeline file its nodes are; set by `Source`, `Transform`, `Sink` and their kind
    node_kind: ClassVar[NodeKind | None] = None
    #: how the engine runs it; set by the same classes
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
    #: Whether `open`, `close` and everything that the engine calls in between run on one thread, for code that keeps
    #: something for its thread. False: on any thread, one after another, so that it occupies none while it waits.
    own_thread: ClassVar[bool] = True
    #: prefix under which rows and time are also recorded as those of a plan inside the node; None: there is none
    sub_plan_metrics: ClassVar[str | None] = None
    #: the metric under which the engine counts the rows of a source by their kind
    row_kind_metric: ClassVar[str | None] = None

    def __init__(self, context: NodeContext[OptionsT]) -> None:
        self.context = context
        self.options: OptionsT = context.options

    @classmethod
    def partitioning(cls, options: OptionsT) -> Partitioning | None:
        """Return how many instances may run in parallel and which rows each gets; called before any is created. None: a
        source has one instance; of a transform or sink there are as many as `parallelism` says, and rows are routed by
        primary key."""
        return None

    @classmethod
    def spark_packages(cls, options: OptionsT) -> frozenset[str]:
        """Return the Spark packages (``avro``, ``kafka``) that a node with these options needs. Called before any
        instance is created: the JVM is started with them."""
        return frozenset()

    @classmethod
    def connections(
        cls, context: NodeContext[OptionsT], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        """Return what a node with these options connects to, for `validate --connect` and `doctor`. No instance is
        created, and no connection is made before `ConnectionCheck.check` is called. ``spark`` returns the session and
        starts a JVM: call it only in a ``check`` that needs it."""
        return ()

    @classmethod
    def external_positions(
        cls, context: NodeContext[OptionsT], spark: Callable[[], SparkSession]
    ) -> Sequence[ExternalPosition]:
        """Return the positions outside of the state backend that a node with these options continues from when the
        backend has none, for `state reset`. No instance is created, and no connection is made before
        `ExternalPosition.reset` is called; ``spark`` returns the session."""
        return ()

    @classmethod
    def needs_input_schema(cls) -> bool:
        """Return whether `static_check` can only be called once the columns of the input are known."""
        return True

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        """Find errors without Spark. Returns them, and the output columns as far as they are known. ``inputs`` are the
        columns of the upstreams by node name; None where they are not known. Called once, before Spark has started. By
        default the output columns are those of the input."""
        return (), self.context.input_schema

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        """Return the output columns, once Spark has started; None: those of the input. Called once."""
        return None

    def open(self) -> None:
        """Connect, allocate, create tables. Called once, on the thread that makes the data calls."""

    def close(self) -> None:
        """Release all resources. Called once, also after a failure; must not raise for what is already closed."""

    def finalized(self, epoch: int) -> None:
        """React to the end of ``epoch``: its positions are stored. May be called twice; epochs may be skipped."""

    def translate_error(self, error: Exception) -> StreamlingError | None:
        """Translate an error of a Spark plan that this operator is part of; None when the error is not about this
        operator. The source is asked first, then each transform downstream."""
        return None

    @property
    def is_deterministic(self) -> bool:
        """Whether Spark may run this operator's part of a plan twice for the same batch and get the same rows."""
        return False

    @property
    def per_batch(self) -> bool:
        """Whether Spark needs another plan for every batch, so that the driver cannot evaluate it for small batches."""
        return False

    def batching(self) -> tuple[int | None, float | None]:
        """Return the rows per call, and how many seconds to wait for them at most; None: batches as they arrive, no
        limit. The engine collects and splits batches accordingly."""
        return self.options.rows_per_batch, self.options.flush_interval

    def labels(self) -> Mapping[str, str]:
        """Return metric labels that identify what this operator connects to; they take precedence over labels of the
        file."""
        return {}
