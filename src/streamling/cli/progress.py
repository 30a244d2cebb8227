"""Progress of bounded work on stderr: a bar on a terminal, a line every few seconds otherwise."""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamling.streams import data_output

if TYPE_CHECKING:
    from streamling.engine.run import PipelineRun

log = logging.getLogger(__name__)

#: takes what is being done, and which share of it is
Tell = Callable[[str, float], None]

_BAR_SECONDS = 0.2
_LINE_SECONDS = 5.0
_WIDTH = 30


@contextmanager
def progress_of(run: PipelineRun) -> Iterator[None]:
    """Shows how far ``run`` has come while the block runs; nothing for endless pipelines."""
    if not run.bounded:
        yield
        return
    # a bar between the rows of a print sink would be noise, so only when data goes elsewhere
    bar = sys.stderr.isatty() and not data_output().isatty()
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(run, done, bar), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(run: PipelineRun, done: threading.Event, bar: bool) -> None:
    started, told = time.monotonic(), ""
    while not done.wait(_BAR_SECONDS if bar else _LINE_SECONDS):
        progress = run.progress()
        if progress is None or not progress.total:
            continue
        share = progress.done / progress.total
        numbers = f"{progress.done}/{progress.total} {progress.unit} ({share:.0%})"
        if bar:
            _draw(share, f"{numbers} {time.monotonic() - started:.0f} s")
        elif numbers != told:
            told = numbers
            log.info("progress: %s", numbers)
    if bar:
        _clear()


@contextmanager
def progress_of_steps() -> Iterator[Tell]:
    """For work that tells what it is doing and which share of that is done: a bar, or a line per step."""
    bar = sys.stderr.isatty()
    told: set[str] = set()

    def tell(doing: str, done: float) -> None:
        if bar:
            _draw(done, doing)
        elif doing not in told:
            told.add(doing)
            print(doing, file=sys.stderr)

    try:
        yield tell
    finally:
        if bar:
            _clear()


def _draw(share: float, text: str) -> None:
    filled = int(min(1.0, share) * _WIDTH)
    room = max(10, shutil.get_terminal_size().columns - _WIDTH - 4)  # a line that wraps cannot be drawn over
    print(f"\r\x1b[K[{'█' * filled}{'·' * (_WIDTH - filled)}] {text[:room]}", end="", file=sys.stderr)
    sys.stderr.flush()


def _clear() -> None:
    print("\r\x1b[K", end="", file=sys.stderr)
