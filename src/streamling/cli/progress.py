"""Progress of a command's steps on stderr: a bar on a terminal, a line per step otherwise."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: called with the current step and the completed fraction of all work
ReportStep = Callable[[str, float], None]

_WIDTH = 30


@contextmanager
def progress_of_steps() -> Iterator[ReportStep]:
    """Show the progress of work that reports its steps and the completed fraction: a bar, or a line per step."""
    bar = sys.stderr.isatty()
    printed: set[str] = set()

    def report_step(doing: str, done: float) -> None:
        if bar:
            _draw(done, doing)
        elif doing not in printed:
            printed.add(doing)
            print(doing, file=sys.stderr)

    try:
        yield report_step
    finally:
        if bar:
            _clear()


def _draw(share: float, text: str) -> None:
    filled = int(min(1.0, share) * _WIDTH)
    room = max(10, shutil.get_terminal_size().columns - _WIDTH - 4)  # a line that wraps cannot be redrawn
    print(f"\r\x1b[K[{'█' * filled}{'·' * (_WIDTH - filled)}] {text[:room]}", end="", file=sys.stderr)
    sys.stderr.flush()


def _clear() -> None:
    print("\r\x1b[K", end="", file=sys.stderr)
