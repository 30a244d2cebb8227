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

    def __init__(self, counter: Any, frame: DataFrame) -> None:
        self._counter = counter
        self.frame = frame

    @classmethod
    def of(cls, frame: DataFrame) -> RowCounter | None:
        """A counter of the rows of ``frame``; None if they cannot be counted this way."""
        from pyspark.sql import DataFrame

        session = frame.sparkSession
        make = _method(session.sparkContext._gateway, "of")
        counter = None if make is None else make(frame._jdf)
        return None if counter is None else cls(counter, DataFrame(counter.frame(), session))

    def rows(self, timeout: float) -> int:
        return int(self._counter.rows())


def without_counters(frame: DataFrame) -> DataFrame:
    """``frame`` for another job, whose rows do not count."""
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    remove = _method(session.sparkContext._gateway, "without")
    return frame if remove is None else DataFrame(remove(frame._jdf), session)


@cache
def _method(gateway: Any, name: str) -> Any | None:
    """A static method of the Java class, found once: to look it up takes several calls. None if the JVM does not have
    our classes, which come with the connector for Kafka."""
    from py4j.java_gateway import JavaClass

    found = gateway.jvm.streamling.RowCounter
    return getattr(found, name) if isinstance(found, JavaClass) else None
