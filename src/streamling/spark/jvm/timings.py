"""Timings of a start: named phases, measured from the start of the process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TimedPhase:
    """A period in seconds since the process started. A moment has equal ends."""

    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Timings:
    """Collects phases from any thread.

    ``started`` is the start of the process on ``clock``; by default the operating system is asked, so that the time for
    loading Python is counted too.
    """

    def __init__(self, started: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock() - process_age() if started is None else started
        self._phases: list[TimedPhase] = []

    def now(self) -> float:
        """Return the seconds since the process started."""
        return self._clock() - self._started

    def mark(self, name: str) -> None:
        """Record a moment."""
        now = self.now()
        self._phases.append(TimedPhase(name, now, now))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Record a period, also if it ends with an error."""
        start = self.now()
        try:
            yield
        finally:
            self._phases.append(TimedPhase(name, start, self.now()))

    def phases(self) -> list[TimedPhase]:
        """Return all phases so far, ordered by start."""
        return sorted(self._phases, key=lambda phase: (phase.start, phase.end))

    def table(self) -> str:
        """Return the phases as text, one line each: end, duration, name."""
        lines = [f"{'at':>9}  {'took':>9}  phase"]
        for phase in sorted(self._phases, key=lambda phase: phase.end):
            took = f"{phase.seconds * 1000:6.0f} ms" if phase.end > phase.start else ""
            lines.append(f"{phase.end * 1000:6.0f} ms  {took:>9}  {phase.name}")
        return "\n".join(lines)


def process_age() -> float:
    """Return the seconds since this process started; 0 if the system does not say (macOS)."""
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    # The command name may contain spaces and parentheses, so count from the last parenthesis: field 22 is the start.
    started_ticks = int(stat.rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
