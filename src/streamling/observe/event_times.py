"""Event times of a node: its watermark, and how old rows are when the node has them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from streamling.observe.telemetry.metrics import BUCKETS, NodeMetrics
from streamling.pipeline.options import EventTime

#: milliseconds per unit
MILLISECONDS: Final = {"seconds": 1000.0, "milliseconds": 1.0, "microseconds": 0.001}


class EventTimes:
    """Records the event times of one node. May be called from any thread."""

    def __init__(self, node: str, settings: EventTime, metrics: NodeMetrics) -> None:
        self.settings = settings
        self._metrics = metrics
        self._log = logging.getLogger(f"streamling.node.{node}")
        self._lock = threading.Lock()
        self._has_warned = False
        #: the latest event time so far, in milliseconds since 1970
        self.watermark: float | None = None

    def record_batch(self, batch: pa.RecordBatch) -> None:
        """Record the event times in ``batch``."""
        import pyarrow.compute as pc

        column = self.settings.column
        if column not in batch.schema.names:
            self.warn(f"there is no column '{column}'")
            return
        times = _milliseconds(batch.column(column), self.settings.unit)
        if times is None:
            self.warn(f"the column '{column}' has the type {batch.schema.field(column).type}")
            return
        times = times.drop_null()
        if len(times):
            lags = pc.subtract(pa.scalar(time.time() * 1000), times)
            below = [pc.sum(pc.less_equal(lags, bound)).as_py() for bound in BUCKETS]
            self.record(len(times), pc.max(times).as_py(), pc.sum(lags).as_py(), below)

    def record(self, count: int, latest: float, lag: float, below: Sequence[int]) -> None:
        """Record ``count`` event times up to ``latest``. ``lag`` is the sum of their ages in milliseconds; ``below``
        says how many are at most as old as each bound of a histogram."""
        with self._lock:
            self.watermark = latest if self.watermark is None else max(latest, self.watermark)
            self._metrics.gauge("event_time_watermark", self.watermark)
        buckets = [new - old for old, new in zip((0, *below), (*below, count), strict=True)]
        self._metrics.distribution("event_time_lag", lag, buckets)

    def warn(self, why: str) -> None:
        """Log once that event times cannot be measured."""
        with self._lock:
            first, self._has_warned = not self._has_warned, True
        if first:
            self._log.warning("telemetry.event_time is not measured: %s", why)


def _milliseconds(column: pa.Array, unit: str | None) -> pa.Array | None:
    """Return the values in milliseconds since 1970; None if the type is not a time."""
    if pa.types.is_timestamp(column.type):
        zone = column.type.tz
        return column.cast(pa.timestamp("ms", zone), safe=False).cast(pa.int64()).cast(pa.float64())
    if pa.types.is_integer(column.type) and unit is not None:
        import pyarrow.compute as pc

        return pc.multiply(column.cast(pa.float64()), MILLISECONDS[unit])
    return None
