"""What scripts write to the console, in the log: at most so many lines in a minute, as a script runs for every row."""

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
        """``line`` begins with the letter of its level."""
        self._turn_over()
        if self._written >= _LINES:
            self.drop(1)
            return
        self._written += 1
        self._log(_LEVELS.get(line[:1], logging.INFO), line[1:])

    def drop(self, lines: int) -> None:
        """Count lines that are not written; the first of a minute is announced."""
        if lines and not self._dropped:
            self._log(logging.WARNING, f"more lines from console follow and are left out, up to {_SECONDS:.0f} s")
        self._dropped += lines

    def _turn_over(self) -> None:
        if self._now() - self._began >= _SECONDS:
            if self._dropped:
                self._log(logging.WARNING, f"lines from console that were left out: {self._dropped:,}")
            self._began, self._written, self._dropped = self._now(), 0, 0
