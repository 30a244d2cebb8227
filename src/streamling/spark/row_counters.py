"""Rows that Spark counts while it computes them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamling.spark.counting import row_count
from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POLL = 0.001
#: Seconds to wait for a count after its job has ended. Spark reports observations on another thread, within
#: milliseconds, unless it is so far behind that it drops reports.
REPORT_WAIT: Final = 30.0


class RowCounter(Protocol):
    """A counter inside a plan. Use ``frame`` instead of the original one."""

    @property
    def frame(self) -> DataFrame: ...

    def rows(self, timeout: float = REPORT_WAIT) -> int | None:
        """Return the number of rows after the job; 0 if Spark did not need to compute them, as with ``WHERE false``.
        None if Spark has not reported it after ``timeout`` seconds."""


def count_rows(frame: DataFrame) -> RowCounter:
    """Count the rows of ``frame``; however many jobs compute them, they count once. Rows that are counted in groups
    need no second counter."""
    counter = _counter(frame)
    return RowObservation(frame) if counter is None else _CodeCounter(counter, frame)


class RowObservation:
    """An operator for which Spark cannot generate code. The first job counts."""

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql import Observation

        self._observation = Observation()
        self.frame = frame.observe(self._observation, row_count())

    def rows(self, timeout: float = REPORT_WAIT) -> int | None:
        observation: Any = self._observation._jo
        deadline = time.monotonic() + timeout
        while not observation.future().isCompleted():
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL)
        counted = observation.getRow()
        return int(counted.getLong(0)) if counted.length() else 0


class _CodeCounter:
    """Part of the generated code, which costs almost nothing (`RowCounter.java`)."""

    def __init__(self, counter: Any, counted: DataFrame) -> None:
        from pyspark.sql import DataFrame

        self._counter = counter
        self.frame = DataFrame(counter.frame(), counted.sparkSession)

    def rows(self, timeout: float = REPORT_WAIT) -> int:
        return self._counts()[0]

    def _counts(self) -> list[int]:
        """Return the number of all rows, and of those of each group."""
        return [int(count) for count in self._counter.counts().split()]


class GroupCounter(_CodeCounter):
    """Counts the rows of a frame in groups."""

    @classmethod
    def of(cls, frame: DataFrame, letters: str, column: str, *, unless: str) -> GroupCounter | None:
        """Return a counter of the rows with each of ``letters`` in ``column``; if there is a column ``unless``, only of
        those with a null in it. None if there is no ``column``, or if the driver may compute the rows without a job."""
        counter = _counter(frame, letters, column, unless)
        return None if counter is None else cls(counter, frame)

    def counts(self) -> list[int]:
        """Return the rows of each group."""
        return self._counts()[1:]


def _counter(frame: DataFrame, *arguments: Any) -> Any | None:
    return java_class(frame.sparkSession._jvm, "streamling.plan.RowCounter").of(frame._jdf, *arguments)
