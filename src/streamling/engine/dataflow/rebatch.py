"""Combines rows in front of a node into batches of the size it needs (`batch_size`, `batch_flush_interval`)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


class Rebatcher:
    """Splits and joins batches; the order is kept and every row is emitted exactly once.

    - ``rows`` set: batches of exactly that many rows; the rest waits for more rows, for the interval or for a drain.
    - only ``interval`` set: everything collected since the first waiting row is emitted as one batch.
    - neither: batches are passed on as they are.
    """

    def __init__(self, rows: int | None, interval: float | None) -> None:
        self._rows = rows
        self._interval = interval
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_rows = 0
        self._oldest = 0.0

    @property
    def holds_rows(self) -> bool:
        """Whether rows may wait for others."""
        return self._rows is not None or self._interval is not None

    def add(self, batch: pa.RecordBatch, now: float) -> Iterator[pa.RecordBatch]:
        """Add ``batch``; yield the batches that are complete."""
        if not self.holds_rows:
            yield batch
            return
        if self._waiting and not batch.schema.equals(self._waiting[0].schema):
            yield from self.drain()  # a source may get new columns while it runs; the two schemas cannot be joined
        if not self._waiting:
            self._oldest = now
        self._waiting.append(batch)
        self.waiting_rows += batch.num_rows
        if self._rows is not None and self.waiting_rows >= self._rows:
            yield from self._full_batches(now)

    def due(self, now: float) -> float | None:
        """Return the seconds until the waiting rows have to be emitted; None if there is no deadline."""
        if not self._waiting or self._interval is None:
            return None
        return max(0.0, self._oldest + self._interval - now)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Emit all waiting rows, in order."""
        if self._waiting:
            yield self._joined()
            self._waiting, self.waiting_rows = [], 0

    def _full_batches(self, now: float) -> Iterator[pa.RecordBatch]:
        assert self._rows is not None
        whole = self._joined()
        end = whole.num_rows - whole.num_rows % self._rows
        rest = whole.slice(end)
        self._waiting, self.waiting_rows, self._oldest = ([rest] if rest.num_rows else []), rest.num_rows, now
        for start in range(0, end, self._rows):
            yield whole.slice(start, self._rows)

    def _joined(self) -> pa.RecordBatch:
        return self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
