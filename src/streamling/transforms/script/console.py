"""Writes the console output of scripts to the log, with a limit of lines per minute, because a script runs for every
row."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

_LEVELS: Final = {"d": logging.DEBUG, "i": logging.INFO, "w": logging.WARNING, "e": logging.ERROR}
_LINES: Final = 100
_SECONDS: Final = 60.0


class Console:
    """The console of one instance of a node."""

    def __init__(self, log: Callable[[int, str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._began = now()
        self._written = self._dropped = 0

    def write(self, line: str) -> None:
        """Write a line, which starts with the letter of its level."""
        self._start_next_period()
        if self._written >= _LINES:
            self.drop(1)
            return
        self._written += 1
        self._log(_LEVELS.get(line[:1], logging.INFO), line[1:])

    def drop(self, lines: int) -> None:
        """Count lines that are not written; the first of a minute is logged."""
        if lines and not self._dropped:
            self._log(logging.WARNING, f"the script logs too many lines; skipping the rest for up to {_SECONDS:.0f} s")
        self._dropped += lines

    def _start_next_period(self) -> None:
        if self._now() - self._began >= _SECONDS:
            if self._dropped:
                self._log(logging.WARNING, f"skipped {self._dropped:,} lines from the console")
            self._began, self._written, self._dropped = self._now(), 0, 0
