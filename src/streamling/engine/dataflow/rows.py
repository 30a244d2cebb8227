"""One node's output for one batch: a Spark DataFrame, Arrow batches, or both."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from streamling.engine.dataflow.arrow_frames import to_frame
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.errors import StreamlingError
from streamling.observe.activity import evaluating
from streamling.pipeline.error_locations import node_error
from streamling.pipeline.model import Node
from streamling.plugins.operators import Operator
from streamling.spark.errors import is_from_spark, spark_error
from streamling.spark.local_frames import needs_no_job, to_arrow
from streamling.spark.row_counters import RowCounter, count_rows
from streamling.spark.worker_errors import worker_failure
from streamling.sql.plan import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: a node and the operator whose part of the plan has not run yet
Part = tuple[Node, Operator[Any]]


class Rows:
    """Rows as a DataFrame or as Arrow batches; they are converted to the other form at most once.

    ``lineage`` are the operators whose Spark plan has not run yet: if it fails, they translate the error.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        frame: DataFrame | None = None,
        batches: list[pa.RecordBatch] | None = None,
        lineage: tuple[Part, ...] = (),
        producer: str = "",
        on_elapsed: Callable[[float], None] | None = None,
        count: int | None = None,
    ) -> None:
        """``count`` is the number of rows of a frame, if the source knows it."""
        self.session = session
        self.lineage = lineage
        #: the flow or lane that will send the markers of these rows
        self.producer = producer
        #: called with the seconds of each Spark job that computes these rows
        self.on_elapsed = on_elapsed
        self._frame = frame
        self._batches = batches
        #: the number of rows, if known
        self.count = count if batches is None else sum(batch.num_rows for batch in batches)
        self._kept = False
        self._numbered: DataFrame | None = None
        self._listeners: list[Callable[[int], None]] = []
        self._counter: RowCounter | None = None

    def frame(self) -> DataFrame:
        """Return the rows for Spark."""
        if self._frame is None:
            assert self._batches is not None
            self._frame = to_frame(self.session, self._batches)
        return self._frame

    def with_frame(self, frame: DataFrame) -> Rows:
        """Return other rows that are computed from these."""
        return Rows(self.session, frame=frame, lineage=self.lineage, producer=self.producer, on_elapsed=self.on_elapsed)

    def numbered(self) -> DataFrame:
        """Return the rows for Spark with a column that numbers them in source order; the same row has the same number
        however often Spark runs the plan."""
        if self._numbered is None:
            from pyspark.sql import functions as f

            if not self._kept and not all(operator.is_deterministic for _, operator in self.lineage):
                self._compute()
            # rows from Python are in partitions, too
            self._numbered = self.frame().withColumn(ROW, f.monotonically_increasing_id())
        return self._numbered

    def batches(self) -> list[pa.RecordBatch]:
        """Return the rows for Python: one batch, or none if there are no rows."""
        if self._batches is None:
            table = self.job(lambda: to_arrow(self.frame()))
            # one contiguous batch: Spark sends slices of 10 000 rows, which are too small for sinks
            self._batches = table.combine_chunks().to_batches()
            self.report_count(table.num_rows)
        return self._batches

    def _compute(self) -> None:
        """Compute the rows now: from here on, the frame has them instead of their plan."""
        self._frame = None if self.batches() else self.frame().limit(0)

    def head(self, rows: int) -> tuple[pa.RecordBatch, float]:
        """Return the first rows, and the seconds that Spark needed to compute them again. For rows that stay in Spark,
        this is a job of its own."""
        if self._batches is not None:
            return (self._batches[0].slice(0, rows), 0.0) if self._batches else (pa.record_batch({}), 0.0)
        began = time.monotonic()
        table = self.run(lambda: to_arrow(self.frame().limit(rows)))
        batches = table.combine_chunks().to_batches()
        return (batches[0] if batches else pa.record_batch({})), time.monotonic() - began

    @property
    def in_python(self) -> bool:
        return self._batches is not None

    def job(self, action: Callable[[], T], node: Node | None = None, doing: str = "") -> T:
        """Call `run` with an action that computes the rows."""
        began = time.monotonic()
        result = self.run(action, node, doing)
        if self.on_elapsed is not None:
            self.on_elapsed(time.monotonic() - began)
        return result

    def run(self, action: Callable[[], T], node: Node | None = None, doing: str = "") -> T:
        """Do something with the plan of these rows; Spark's errors are translated. ``node`` was ``doing`` it: for
        errors that none of the operators behind the rows can translate."""
        try:
            with evaluating():
                return action()
        except StreamlingError:
            raise
        except Exception as error:
            translated = self.translate_error(error, node, doing)
            if translated.__suppress_context__:  # it knows its cause; Spark's text adds nothing
                raise translated  # noqa: B904
            raise translated from error

    def persist(self) -> None:
        """Compute the plan once, although several consumers make Spark run it."""
        if self._frame is None or self._batches is not None or self._kept:
            return
        # another frame: once planned, this one would not use Spark's cache
        if self.run(lambda: needs_no_job(self.frame().select("*"))):
            self._compute()
        else:
            self._frame = self._frame.persist()
            self._kept = True

    def unpersist(self) -> None:
        if self._kept and self._frame is not None:
            self._frame.unpersist()
            self._kept = False

    # ── the number of rows ──────────────────────────────────────────────────────────────────────────────────

    def on_count(self, listener: Callable[[int], None]) -> None:
        """Call ``listener`` with the number of rows as soon as it is known without extra work: now for rows in Python
        and those that the source has counted, later for those that are loaded into Python. For rows that
        stay in Spark, `count_in_spark` has to be called."""
        if self.count is not None:
            listener(self.count)
        else:
            self._listeners.append(listener)

    def count_with(self, others: Rows) -> None:
        """Use the number of ``others``: there are as many rows."""
        others.on_count(self.report_count)

    def count_in_spark(self) -> None:
        """Let Spark count the rows while it computes those of the `frame` that is returned from now on."""
        if self.count is None:
            self._counter = count_rows(self.frame())
            self._frame = self._counter.frame

    def measure(self, measures: RowMeasures) -> None:
        """Let Spark measure the rows while it computes those of the `frame` that is returned from now on."""
        self._frame = measures.observe(self.frame())

    @property
    def is_counted_in_spark(self) -> bool:
        return self._counter is not None

    def settle(self) -> None:
        """Report what Spark has counted, now that the job that computed the rows has ended."""
        if self._listeners and self._counter is not None:
            self.report_count(self._counter.rows() or 0)

    def report_count(self, rows: int) -> None:
        """Report the number of rows, which is known now."""
        self.count = rows
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(rows)

    def translate_error(self, error: Exception, node: Node | None = None, doing: str = "") -> StreamlingError:
        """Let the operator that Spark's ``error`` is about translate it; otherwise attribute it to ``node``, or to all
        nodes of the plan."""
        for part, operator in self.lineage:
            translated = operator.translate_error(error)
            if translated is not None:
                return node_error(translated, part)
        if (lost := worker_failure(error)) is not None:
            return lost if node is None else node_error(lost, node, doing)
        what = "Spark could not run the plan"
        failure = spark_error(error, what) if is_from_spark(error) else StreamlingError.wrap(error, what)
        if node is not None:
            return node_error(failure, node, doing)
        nodes = list(dict.fromkeys(part.label for part, _ in self.lineage))
        if len(nodes) == 1:
            return failure.of_node(nodes[0])
        return failure.context(", ".join(map(str, nodes))) if nodes else failure


def check_columns(found: pa.Schema, declared: pa.Schema) -> None:
    """Raise an error unless rows have the column names and types that their operator declared; nullability may
    differ."""
    if found.names != declared.names or found.types != declared.types:
        raise StreamlingError.user(f"returned columns ({_columns(found)}), declared ({_columns(declared)})")


def as_declared(rows: pa.RecordBatch, declared: pa.Schema) -> pa.RecordBatch:
    """Return ``rows`` after `check_columns`, with the declared metadata of columns that have none: code that builds a
    new batch loses the metadata of its fields, which says what a wide number means."""
    check_columns(rows.schema, declared)
    pairs = list(zip(rows.schema, declared, strict=True))
    if all(field.metadata or not wanted.metadata for field, wanted in pairs):
        return rows
    fields = [field if field.metadata else field.with_metadata(wanted.metadata) for field, wanted in pairs]
    return pa.RecordBatch.from_arrays(rows.columns, schema=pa.schema(fields))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
