"""Markers: who receives them, and when an epoch is complete there."""

from __future__ import annotations

import threading
from enum import Enum, auto
from typing import Protocol


class Port(Protocol):
    """A receiver of markers: a lane, a sink that Spark writes, or a side output."""

    def add_feeder(self, name: str) -> None:
        """Register a sender of rows and markers; only before the start."""

    def mark(self, feeder: str, epoch: int) -> None:
        """Report that ``feeder`` has sent everything of ``epoch``."""


class Arrival(Enum):
    """What the arrival of a marker means for its epoch."""

    FIRST = auto()
    FURTHER = auto()
    #: every feeder has sent the marker
    LAST = auto()


class MarkerAlignment:
    """Finds out when all feeders (flows, lanes) have sent the marker of an epoch. An epoch that is dropped for a
    terminal one is never complete."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: the last marker of each feeder
        self._last: dict[str, int] = {}

    def add_feeder(self, name: str) -> None:
        self._last[name] = 0

    def last_of(self, feeder: str) -> int:
        """Return the epoch of the last marker that ``feeder`` has sent; 0: none yet."""
        with self._lock:
            return self._last.get(feeder, 0)

    def arrive(self, feeder: str, epoch: int) -> Arrival:
        """Record that the marker of ``epoch`` has arrived from ``feeder``."""
        with self._lock:
            is_first = all(last < epoch for last in self._last.values())
            self._last[feeder] = epoch
            if all(last == epoch for last in self._last.values()):
                return Arrival.LAST
        return Arrival.FIRST if is_first else Arrival.FURTHER
