"""Rows per second of each pipeline, between two requests."""

from __future__ import annotations

from collections import deque

from streamling.serve.model import PipelineKey

#: rates are averaged over this time; over less they would jump with every batch
_SECONDS = 10.0


class RowRates:
    """Remembers the counts of the last seconds. Called from any thread; a lost count does no harm."""

    def __init__(self) -> None:
        self._counts: dict[PipelineKey, deque[tuple[float, int]]] = {}

    def rate(self, key: PipelineKey, now: float, rows: int) -> float | None:
        """Return the rows per second since the oldest count within the last seconds; None if there is none."""
        counts = self._counts.setdefault(key, deque())
        if counts and rows < counts[-1][1]:  # the pipeline has been restarted
            counts.clear()
        while len(counts) > 1 and now - counts[0][0] > _SECONDS:
            counts.popleft()
        rate = (rows - counts[0][1]) / (now - counts[0][0]) if counts and now > counts[0][0] else None
        counts.append((now, rows))
        return rate
