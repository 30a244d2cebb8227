"""Blackhole sink: computes every row and keeps none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.pipeline.options import Parallel, Rebatched, SinkOptions
from streamling.plugins.operators import FrameSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BlackholeSinkOptions(Parallel, Rebatched, SinkOptions):
    """Discards its rows; for measuring and trying out."""


class BlackholeSink(FrameSink[BlackholeSinkOptions]):
    """Spark's ``noop`` writer: the plan runs in full inside the JVM, nothing leaves it."""

    Options = BlackholeSinkOptions

    def write_frame(self, frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def write_arrow(self, batches: Sequence[pa.RecordBatch]) -> bool:
        return True
