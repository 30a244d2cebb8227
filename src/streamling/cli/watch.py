"""Progress of a run for people: a status line on a terminal, otherwise a summary in the log."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamling.observe.telemetry.logging import logs_are_json
from streamling.observe.terminal.status_line import StatusLine, can_show_status, status_line
from streamling.observe.terminal.streams import terminal_of
from streamling.periodic import run_periodically

if TYPE_CHECKING:
    from streamling.engine.run.run import PipelineRun
    from streamling.engine.run.status import RunStatus

log = logging.getLogger(__name__)

_DRAW_SECONDS = 0.5
_SUMMARY_SECONDS = 60.0
#: rates are averaged over the last seconds; over a single one they would jump with every batch
_RATE_SECONDS = 10.0
_BAR_WIDTH = 10


@contextmanager
def show_progress(run: PipelineRun, summary_seconds: float = _SUMMARY_SECONDS) -> Iterator[None]:
    """Show the progress of ``run`` while the block runs."""
    if can_show_status(sys.stderr) and not logs_are_json():
        with (
            status_line(terminal_of(sys.stderr)) as line,
            run_periodically(_Drawing(run, line), _DRAW_SECONDS, name="status"),
        ):
            yield
    else:
        with run_periodically(_Summing(run), summary_seconds, name="status"):
            yield


class _Drawing:
    def __init__(self, run: PipelineRun, line: StatusLine) -> None:
        self._run = run
        self._line = line
        self._rates = Rates(_RATE_SECONDS)
        self._unicode = (sys.stderr.encoding or "").lower().startswith("utf")

    def __call__(self) -> None:
        status = self._run.status()
        self._rates.add(time.monotonic(), status)
        parts = [*bar(status, self._rates, self._unicode), *status_parts(status, self._rates)]
        self._line.show((" · " if self._unicode else " | ").join(parts))


class _Summing:
    def __init__(self, run: PipelineRun) -> None:
        self._run = run
        self._rates = Rates(0)
        self._started = time.monotonic()
        self._rates.add(self._started, run.status())

    def __call__(self) -> None:
        status, now = self._run.status(), time.monotonic()
        self._rates.add(now, status)
        parts = [*_progress(status, self._rates), *status_parts(status, self._rates)]
        log.info("running for %s: %s", duration(now - self._started), ", ".join(parts))


class Rates:
    """Rows per second between the newest status and the oldest one within ``seconds``; at least the previous one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, RunStatus]] = deque()

    def add(self, now: float, status: RunStatus) -> None:
        self._seen.append((now, status))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._seconds:
            self._seen.popleft()

    def rows_in(self) -> float:
        return self._of(lambda status: status.rows_in or 0)

    def rows_out(self) -> float:
        return self._of(lambda status: status.rows_out)

    def done(self) -> float:
        """Return how much of the current part of the work is done per second."""
        (ended, now) = self._seen[-1]
        if now.progress is None:
            return 0.0
        rate = 0.0
        for began, before in reversed(self._seen):
            if before.progress is None or before.progress.part != now.progress.part:
                break
            if ended > began:
                rate = (now.progress.done - before.progress.done) / (ended - began)
        return rate

    def _of(self, rows: Callable[[RunStatus], int]) -> float:
        (began, before), (ended, after) = self._seen[0], self._seen[-1]
        return (rows(after) - rows(before)) / (ended - began) if ended > began else 0.0


def status_parts(status: RunStatus, rates: Rates) -> Iterator[str]:
    """Yield the parts of the status text."""
    if status.rows_in is not None:
        yield f"in {rates.rows_in():,.0f} rows/s"
    yield f"out {rates.rows_out():,.0f} rows/s"
    yield f"{status.rows_out:,} {'row' if status.rows_out == 1 else 'rows'} delivered"
    if status.dead_letters:
        yield f"{status.dead_letters:,} {'dead letter' if status.dead_letters == 1 else 'dead letters'}"
    if status.lag is not None:
        yield f"lag {status.lag:,}"
    age = status.checkpoint_age
    yield "no checkpoint yet" if age is None else f"checkpoint {duration(age)} ago"


def bar(status: RunStatus, rates: Rates, unicode: bool = True) -> Iterator[str]:
    """Yield the progress bar of bounded sources, if there is one."""
    progress = status.progress
    if progress is not None and progress.total:
        filled = int(min(1.0, progress.done / progress.total) * _BAR_WIDTH)
        full, empty = ("█", "·") if unicode else ("#", ".")
        yield f"[{full * filled}{empty * (_BAR_WIDTH - filled)}] {next(_progress(status, rates))}"


def _progress(status: RunStatus, rates: Rates) -> Iterator[str]:
    progress = status.progress
    if progress is not None and progress.total:
        part = f"{progress.part}: " if progress.part else ""
        share = min(1.0, progress.done / progress.total)
        rate, left = rates.done(), progress.total - progress.done
        time_left = f", {duration(left / rate)} left" if rate > 0 and left > 0 else ""
        yield f"{part}{progress.done:,}/{progress.total:,} {progress.unit} ({share:.0%}{time_left})"


def duration(seconds: float) -> str:
    """Return ``seconds`` in its two largest units: 45 s, 12 min, 3 h 20 min, 5 d 2 h."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    if hours < 24:
        return f"{hours} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"
