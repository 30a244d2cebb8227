"""Collects rows in front of a node into the batches it asked for (`batch_size`, `batch_flush_interval`)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


class Rebatcher:
    """Cuts and joins batches; order is kept, every row comes out exactly once.

    - ``rows`` set: batches of exactly that many rows, the rest waits for more, for the interval or for a drain.
    - only ``interval`` set: everything collected since the first waiting row comes out as one batch.
    - neither: batches pass as they are.
    """

    def __init__(self, rows: int | None, interval: float | None) -> None:
        self._rows = rows
        self._interval = interval
        self._waiting: list[pa.RecordBatch] = []
        self._count = 0
        self._oldest = 0.0

    def add(self, batch: pa.RecordBatch, now: float) -> Iterator[pa.RecordBatch]:
        """Take ``batch``; yield what is complete."""
        if self._rows is None and self._interval is None:
            yield batch
            return
        if self._waiting and not batch.schema.equals(self._waiting[0].schema):
            yield from self.drain()  # a source may gain columns while it runs: batches of both kinds cannot be joined
        if not self._waiting:
            self._oldest = now
        self._waiting.append(batch)
        self._count += batch.num_rows
        if self._rows is not None and self._count >= self._rows:
            yield from self._full_batches(now)

    def due(self, now: float) -> float | None:
        """Seconds until the waiting rows have to go, None when nothing waits for a time."""
        if not self._waiting or self._interval is None:
            return None
        return max(0.0, self._oldest + self._interval - now)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Everything that waits, in order."""
        if self._waiting:
            yield self._joined()
            self._waiting, self._count = [], 0

    def _full_batches(self, now: float) -> Iterator[pa.RecordBatch]:
        assert self._rows is not None
        whole = self._joined()
        end = whole.num_rows - whole.num_rows % self._rows
        rest = whole.slice(end)
        self._waiting, self._count, self._oldest = ([rest] if rest.num_rows else []), rest.num_rows, now
        for start in range(0, end, self._rows):
            yield whole.slice(start, self._rows)

    def _joined(self) -> pa.RecordBatch:
        return self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
