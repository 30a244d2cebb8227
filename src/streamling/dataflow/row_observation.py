"""Rows that Spark counts on their way through a plan that someone else runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from streamling.spark.counting import row_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POLL = 0.001


class RowObservation:
    """``frame`` is the frame to go on with; it costs an operator that Spark cannot generate code for."""

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql import Observation

        self._observation = Observation()
        self.frame = frame.observe(self._observation, row_count())

    def rows(self, timeout: float) -> int | None:
        """What the first job counted; 0 when it had no need to compute the rows, as those above ``WHERE false``. None
        when Spark has not reported it ``timeout`` seconds later."""
        observation: Any = self._observation._jo
        deadline = time.monotonic() + timeout
        while not observation.future().isCompleted():
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL)
        counted = observation.getRow()
        return int(counted.getLong(0)) if counted.length() else 0
