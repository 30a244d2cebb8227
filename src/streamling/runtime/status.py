"""The status of a run at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamling.plugins.operators import Progress


@dataclass(frozen=True)
class RunStatus:
    """Numbers of rows are since the start."""

    #: rows that sources have delivered; None if unknown
    rows_in: int | None = None
    #: rows written, without dead letters
    rows_out: int = 0
    dead_letters: int = 0
    #: rows or messages that the sources have not read yet, as far as known
    lag: int | None = None
    #: seconds since the last checkpoint; None before the first
    checkpoint_age: float | None = None
    #: the last checkpoint since the start; None before the first
    epoch: int | None = None
    #: of bounded sources
    progress: Progress | None = None


def sum_known(numbers: Iterable[int | None]) -> int | None:
    """The sum of the known numbers; None if there are none."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def total_progress(known: Sequence[Progress]) -> Progress | None:
    """The progress of several sources together: of those that have not ended, if any. Different units cannot be added;
    the one with the largest total counts."""
    running = [progress for progress in known if progress.done < progress.total] or known
    if not running:
        return None
    unit = max(running, key=lambda progress: progress.total).unit
    running = [progress for progress in running if progress.unit == unit]
    if len(running) == 1:
        return running[0]
    return Progress(sum(one.done for one in running), sum(one.total for one in running), unit)
