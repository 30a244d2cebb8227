"""Progress of bounded work on stderr: a bar on a terminal, a line every few seconds otherwise."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamling.engine.run import PipelineRun

log = logging.getLogger(__name__)

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
    bar = sys.stderr.isatty() and not sys.stdout.isatty()
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(run, done, bar), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(run: PipelineRun, done: threading.Event, bar: bool) -> None:
    started = time.monotonic()
    while not done.wait(_BAR_SECONDS if bar else _LINE_SECONDS):
        progress = run.progress()
        if progress is None or not progress.total:
            continue
        share = progress.done / progress.total
        numbers = f"{progress.done}/{progress.total} {progress.unit} ({share:.0%})"
        if bar:
            filled = int(share * _WIDTH)
            seconds = time.monotonic() - started
            print(f"\r[{'█' * filled}{'·' * (_WIDTH - filled)}] {numbers} {seconds:.0f} s ", end="", file=sys.stderr)
            sys.stderr.flush()
        else:
            log.info("progress: %s", numbers)
    if bar:
        print("\r\x1b[K", end="", file=sys.stderr)
