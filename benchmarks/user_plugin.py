"""A transform and a sink written like those of users, and loaded from this file like theirs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamling.plugins import Sink, SinkOptions, Transform, TransformOptions, plugin


@plugin("user.totals")
class Totals(Transform[TransformOptions]):
    """Adds the total of an order."""

    Options = TransformOptions

    def output_schema(self) -> pa.Schema:
        return self.context.input_schema.append(pa.field("total", pa.float64()))

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        total = pc.multiply(batch.column("amount"), batch.column("quantity"))
        return batch.append_column(pa.field("total", pa.float64()), total)


@plugin("user.collected")
class Collected(Sink[SinkOptions]):
    """Keeps rows in this process."""

    Options = SinkOptions

    def open(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
