"""Rows that Spark counts on their way through a plan that someone else runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Seconds to wait for a count after its job is over. Spark tells it on a thread of its own, within milliseconds, unless
#: it is so far behind that it drops what it has to tell.
_WAIT = 30.0
_POLL = 0.001


class Observed:
    """``frame`` is the frame to go on with; it costs an operator that Spark cannot generate code for."""

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql import Observation

        self._observation = Observation()
        self.frame = frame.observe(self._observation, row_count())

    def rows(self) -> int:
        """What the first job counted; 0 when it had no need to compute the rows, as those above ``WHERE false``."""
        observation: Any = self._observation._jo
        deadline = time.monotonic() + _WAIT
        while not observation.future().isCompleted():
            if time.monotonic() > deadline:
                return 0
            time.sleep(_POLL)
        counted = observation.getRow()
        return int(counted.getLong(0)) if counted.length() else 0


def row_count() -> Column:
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias("rows")
