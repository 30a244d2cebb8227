"""Rows that Spark counts while it runs a plan."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

from streamling.spark.counting import row_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POLL = 0.001


class RowObservation:
    """Use ``frame`` instead of the original one. It adds an operator for which Spark cannot generate code."""

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql import Observation

        self._observation = Observation()
        self.frame = frame.observe(self._observation, row_count())

    def rows(self, timeout: float) -> int | None:
        """The number of rows that the first job computed; 0 if it did not need to compute them, as with
        ``WHERE false``. None if Spark has not reported it after ``timeout`` seconds."""
        observation: Any = self._observation._jo
        deadline = time.monotonic() + timeout
        while not observation.future().isCompleted():
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL)
        counted = observation.getRow()
        return int(counted.getLong(0)) if counted.length() else 0


class RowCounter:
    """The same for rows that exactly one job computes; it costs almost nothing (`RowCounter.java`)."""

    def __init__(self, frame: DataFrame, counter: Any) -> None:
        from pyspark.sql import DataFrame

        self._counter = counter
        self.frame = DataFrame(counter.over(frame._jdf), frame.sparkSession)

    @classmethod
    def of(cls, frame: DataFrame) -> RowCounter | None:
        """A counter of the rows of ``frame``; None if they cannot be counted this way."""
        if not _has_counters(frame.sparkSession.sparkContext._gateway):
            return None
        jvm: Any = frame.sparkSession._jvm
        counter = jvm.streamling.RowCounter.of(frame._jdf)
        return None if counter is None else cls(frame, counter)

    def rows(self, timeout: float) -> int:
        return int(self._counter.rows())


def without_counters(frame: DataFrame) -> DataFrame:
    """``frame`` for another job, whose rows do not count."""
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    if not _has_counters(session.sparkContext._gateway):
        return frame
    jvm: Any = session._jvm
    return DataFrame(jvm.streamling.RowCounter.without(frame._jdf), session)


@cache
def _has_counters(gateway: Any) -> bool:
    """Whether the JVM has our classes: they come with the connector for Kafka."""
    from py4j.java_gateway import JavaClass

    return isinstance(gateway.jvm.streamling.RowCounter, JavaClass)
