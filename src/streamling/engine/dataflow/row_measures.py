"""What is measured about the rows of a node besides their number: event times, and the row kinds of change records.

Rows in Python are measured as Arrow data. For rows that stay in Spark, aggregates are added to their plan
(``DataFrame.observe``): Spark reports them a moment after the job. Row kinds have a counter in the generated code if a
job computes the rows: an aggregate would cost more than 3 % of the time in which a message is decoded.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from streamling.observe.event_times import MILLISECONDS, EventTimes
from streamling.observe.telemetry.metrics import BUCKETS
from streamling.plugins.context import Metrics
from streamling.plugins.rejects import REJECT_COLUMN
from streamling.spark.row_counters import GroupCounter
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

_KINDS: Final = "iud"
#: observations that may wait for Spark's report; some never get one, because the driver evaluated the plan
_MOST_PENDING: Final = 8

_Value = float | None


class Counting(Protocol):
    """Whether metrics are exported, so that counting is worth its time."""

    @property
    def active(self) -> bool: ...


@dataclass(frozen=True)
class _Contents:
    """What an observation contains, in this order."""

    has_kinds: bool = False
    has_times: bool = False


class RowMeasures:
    """The measures of one node. With ``kinds``, row kinds are counted under this name while ``counting`` is active."""

    def __init__(
        self,
        node: str,
        metrics: Metrics,
        event_times: EventTimes | None,
        kinds: str | None = None,
        counting: Counting | None = None,
    ) -> None:
        #: the name of the observation in a plan
        self.name = f"measures_{node}"
        self._metrics = metrics
        self._event_times = event_times
        self._kinds = kinds
        self._counting = counting
        self._lock = threading.Lock()
        #: observations and what they contain
        self._pending: list[tuple[Observation, _Contents]] = []
        #: counts the row kinds of the last batch that a job computes, and what has been recorded of them
        self._counter: GroupCounter | None = None
        self._counted = [0] * len(_KINDS)
        #: of the plan that the driver evaluates
        self._contents = _Contents()
        #: whether the source adds the measures to its plan itself, before it drops rows
        self.by_source = False

    # ── rows in Python ──────────────────────────────────────────────────────────────────────────────────────

    def record_batches(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Measure rows."""
        for batch in batches:
            if self._event_times is not None and batch.num_rows:
                self._event_times.record_batch(batch)

    # ── rows in Spark ───────────────────────────────────────────────────────────────────────────────────────

    def in_source(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` with the measures: for a source that drops rows afterwards."""
        self.by_source = True
        return self.observe(frame)

    def observe(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` with the measures in its plan."""
        from pyspark.sql import Observation

        times = None if self._event_times is None else _times(frame, self._event_times)
        counted = self._with_counter(frame)
        kinds = self._kind_counts(frame) if counted is None else []
        contents = _Contents(bool(kinds), times is not None)
        if counted is None:
            self._contents = contents
        aggregates = [*kinds, *([] if times is None else _time_aggregates(frame, times))]
        frame = frame if counted is None else counted
        if not aggregates:
            return frame
        observation = Observation(self.name)
        with self._lock:
            self._pending = [*self._pending[1 - _MOST_PENDING :], (observation, contents)]
        return frame.observe(observation, *(each.alias(f"m{number}") for number, each in enumerate(aggregates)))

    @property
    def is_in_plan(self) -> bool:
        """Whether the last plan contains measures."""
        return self._contents != _Contents()

    def collect(self) -> None:
        """Record what Spark has reported in the meantime."""
        if not self._pending and self._counter is None:
            return
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):  # a JVM that has died reports nothing more
            self._record_counter()
            for row, contents in self._taken():
                values = [None if row.isNullAt(number) else float(row.get(number)) for number in range(row.length())]
                if values:
                    self._record(values, contents)

    def _taken(self) -> list[tuple[Any, _Contents]]:
        """Return the reports that have arrived."""
        with self._lock:
            pending: list[Any] = self._pending
            done = [each for each in pending if each[0]._jo is not None and each[0]._jo.future().isCompleted()]
            self._pending = [each for each in pending if each not in done]
        return [(observation._jo.getRow(), contents) for observation, contents in done]

    def record(self, values: Sequence[_Value]) -> None:
        """Record the aggregates of a plan that the driver has evaluated."""
        self._record(values, self._contents)

    def _record(self, values: Sequence[_Value], contents: _Contents) -> None:
        if contents.has_kinds and self._kinds is not None:
            for kind, count in zip(_KINDS, values, strict=False):
                self._metrics.count(self._kinds, int(count or 0), {"kind": kind})
            values = values[len(_KINDS) :]
        if contents.has_times and self._event_times is not None and values[0]:
            count, latest, lag, *below = values
            self._event_times.record(int(count or 0), latest or 0.0, lag or 0.0, [int(each or 0) for each in below])

    def _kind_counts(self, frame: DataFrame) -> list[Column]:
        from pyspark.sql import functions as f

        if not self._counts_kinds or OP_COLUMN not in frame.columns:
            return []
        kind = f.when(_is_valid(frame), f.col(OP_COLUMN))
        return [f.count_if(kind == each) for each in _KINDS]

    def _with_counter(self, frame: DataFrame) -> DataFrame | None:
        """Return ``frame`` with a counter of the kinds of valid rows in its plan; None if the driver may evaluate the
        plan."""
        counter = GroupCounter.of(frame, _KINDS, OP_COLUMN, unless=REJECT_COLUMN) if self._counts_kinds else None
        if counter is None:
            return None
        self._record_counter()  # the job of the last batch has ended
        with self._lock:
            self._counter, self._counted = counter, [0] * len(_KINDS)
        return counter.frame

    @property
    def _counts_kinds(self) -> bool:
        return self._kinds is not None and self._counting is not None and self._counting.active

    def _record_counter(self) -> None:
        """Record what the counter has counted since the last call."""
        with self._lock:
            if self._counter is None or self._kinds is None:
                return
            before, self._counted = self._counted, self._counter.counts()
            for kind, old, new in zip(_KINDS, before, self._counted, strict=True):
                self._metrics.count(self._kinds, new - old, {"kind": kind})


def _is_valid(frame: DataFrame) -> Column:
    from pyspark.sql import functions as f

    return f.col(REJECT_COLUMN).isNull() if REJECT_COLUMN in frame.columns else f.lit(True)


def _times(frame: DataFrame, event_times: EventTimes) -> Column | None:
    """Return the event times in milliseconds; None, with a warning, if there are none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import IntegralType, TimestampNTZType, TimestampType

    settings = event_times.settings
    if settings.column not in frame.columns:
        event_times.warn(f"there is no column '{settings.column}'")
        return None
    kind, name = frame.schema[settings.column].dataType, f.col(f"`{settings.column}`")
    if isinstance(kind, TimestampType | TimestampNTZType):
        return f.unix_millis(name.cast("timestamp")).cast("double")
    if isinstance(kind, IntegralType) and settings.unit is not None:
        return name.cast("double") * MILLISECONDS[settings.unit]
    event_times.warn(f"the column '{settings.column}' has the type {kind.simpleString()}")
    return None


def _time_aggregates(frame: DataFrame, times: Column) -> list[Column]:
    from pyspark.sql import functions as f

    times = f.when(_is_valid(frame), times)
    lag = f.unix_millis(f.current_timestamp()).cast("double") - times
    return [f.count(times), f.max(times), f.sum(lag), *(f.count_if(lag <= bound) for bound in BUCKETS)]
