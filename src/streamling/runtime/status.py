"""What people who watch a run want to know, at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamling.plugins.operators import Progress


@dataclass(frozen=True)
class RunStatus:
    """Rows are counted since the start."""

    #: rows that sources delivered; None when no source knows
    rows_in: int | None = None
    #: rows written, dead letters aside
    rows_out: int = 0
    dead_letters: int = 0
    #: rows or messages that wait in front of the sources, as far as they know
    lag: int | None = None
    #: seconds since the last checkpoint; None before the first
    checkpoint_age: float | None = None
    #: of bounded sources
    progress: Progress | None = None


def sum_known(numbers: Iterable[int | None]) -> int | None:
    """The sum of those that are known; None when none is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
