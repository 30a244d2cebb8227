"""Numbers of a run over the last two minutes. Samples are only taken on request."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

#: samples that are kept, and the seconds between two of them
LENGTH: Final = 120
INTERVAL: Final = 1.0
#: rates and shares are averages over the last seconds
WINDOW: Final = 5.0


@dataclass(frozen=True)
class NodeSample:
    """Totals of a node since the start."""

    rows_in: int = 0
    rows_out: int = 0
    busy: float = 0.0
    starved: float = 0.0
    blocked: float = 0.0
    rejected: int = 0


@dataclass(frozen=True)
class Sample:
    """Totals of a run since the start."""

    at: float
    nodes: Mapping[str, NodeSample] = field(default_factory=dict)
    #: rows that entered the pipeline and that were written
    rows_in: int = 0
    rows_out: int = 0
    lag: int | None = None


class History:
    """The last samples, at most one per second."""

    def __init__(self, started: float) -> None:
        self._samples: deque[Sample] = deque([Sample(started)], maxlen=LENGTH + 1)
        self._lock = threading.Lock()

    def add(self, sample: Sample) -> Sample:
        """Add ``sample`` and return the one to compare it with: about `WINDOW` seconds older, or the closest to it."""
        with self._lock:
            older = [each for each in self._samples if sample.at - each.at <= LENGTH * INTERVAL] or [self._samples[-1]]
            before = next((each for each in reversed(older) if sample.at - each.at >= WINDOW), older[0])
            if sample.at - self._samples[-1].at >= INTERVAL * 0.9:
                self._samples.append(sample)
            return before

    def series(self, now: float) -> dict[str, list[float | None]]:
        """Return rates per second and lag of the last two minutes, oldest first, and how many seconds ago they were
        taken: there are gaps without requests."""
        with self._lock:
            samples = [each for each in self._samples if now - each.at <= LENGTH * INTERVAL]
        pairs = list(pairwise(samples))
        return {
            "rate_in": [rate(new.rows_in - old.rows_in, new.at - old.at) for old, new in pairs],
            "rate_out": [rate(new.rows_out - old.rows_out, new.at - old.at) for old, new in pairs],
            "lag": [new.lag for _, new in pairs],
            "age_s": [round(now - new.at, 1) for _, new in pairs],
        }


def rate(amount: float, seconds: float) -> float:
    """Return ``amount`` per second, rounded for display."""
    return round(max(0.0, amount) / seconds, 2) if seconds > 0 else 0.0


@dataclass(frozen=True)
class Shares:
    """Shares of the time of a node, 0 to 1."""

    busy: float
    blocked: float
    starved: float


@dataclass(frozen=True)
class Window:
    """The last seconds: the totals at their beginning and end."""

    old: Sample
    new: Sample

    @property
    def seconds(self) -> float:
        return self.new.at - self.old.at

    def rate(self, node: str, field: str) -> float:
        """Return the rows per second."""
        return rate(self._change(node, field), self.seconds)

    def shares(self, node: str, threads: int) -> Shares:
        """Return what the node has spent its time on."""
        total = self.seconds * max(1, threads)
        busy, blocked, starved = (self._share(node, field, total) for field in ("busy", "blocked", "starved"))
        if not threads:
            starved = round(max(0.0, 1.0 - busy - blocked), 3)
        return Shares(busy, blocked, starved)

    def _share(self, node: str, field: str, total: float) -> float:
        return round(min(1.0, max(0.0, self._change(node, field)) / total), 3) if total > 0 else 0.0

    def _change(self, node: str, field: str) -> float:
        old = self.old.nodes.get(node, NodeSample())
        change: float = getattr(self.new.nodes[node], field) - getattr(old, field)
        return change
