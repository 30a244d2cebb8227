"""Rows that Spark counts while it runs a plan."""

from __future__ import annotations

import time
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
