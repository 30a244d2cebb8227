"""Sinks: those that write Arrow data, and those that Spark writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from streamling.pipeline.model import NodeKind
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import Operator, OptionsT
from streamling.plugins.streams import LocalRows, NeedsJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        """Called on the lane's thread in source order, never with an empty batch. May buffer. Rows count as delivered
        when the sink reports them with `NodeContext.count_delivered`, at the latest when an epoch is acknowledged."""

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
    #: True when `write_frame` returns the number of its rows. Otherwise Spark counts them for the engine, which takes
    #: 0.04 to 0.25 µs per row. All of them count as delivered when it returns, unless the sink has reported something
    #: else with `NodeContext.count_delivered`.
    counts_rows: ClassVar[bool] = False

    def write_arrow(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Write rows that are already in Python, durably; False: pass them as a DataFrame instead."""
        return False

    def needs_job(self, columns: pa.Schema) -> NeedsJob | None:
        """Return why small batches with these ``columns`` are Spark jobs if they come from Python; None: `write_arrow`
        takes them. May be called before ``open``; only for real-time sources."""
        return NeedsJob("Spark writes its rows")

    def prepare(self, frame: DataFrame) -> DataFrame:
        """Return what the sink changes about the rows (columns it drops or adds), as a plan. Called once per batch, so
        that it runs in the same pass as the SQL."""
        return frame

    @abstractmethod
    def write_frame(self, frame: DataFrame) -> int | None:
        """Write all rows of a prepared frame durably before returning. Called once per batch. Returns the number of
        rows if the sink `counts_rows`."""

    def prepare_local(self, frame: DataFrame) -> DataFrame | None:
        """Return what `write_local` takes, as a plan over the rows of a stream. Called once per stream. None: the sink
        does not write small batches itself."""
        return None

    def local_writer(self, spark: SparkSession) -> Any:
        """Return the Java object (``streamling.plan.RowSink``) that writes the rows of `prepare_local` durably. Called
        once per stream, if the driver can evaluate that plan."""
        raise NotImplementedError(f"{type(self).__name__} has no local_writer")

    def written_local(self, rows: int, sent: int, seconds: float) -> None:
        """Report that the `local_writer` has taken ``rows`` rows and sent ``sent`` of them, in this time. All of them
        count as delivered, unless the sink reports something else with `NodeContext.count_delivered`."""

    def write_local(self, rows: LocalRows) -> None:
        """Write rows with which the `local_writer` has failed, durably before returning, or raise what is wrong."""
        raise NotImplementedError(f"{type(self).__name__} has no write_local")
