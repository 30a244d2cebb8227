"""A status line at the bottom of a terminal: redrawn in place, and hidden while anything else is written."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from streamling.observe.terminal.printable import printable

_CLEAR = "\r\x1b[K"

_current: StatusLine | None = None


class StatusLine:
    """One line on ``stream``, a terminal. Thread-safe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # reentrant: code inside `hidden` may write again
        self._lock = threading.RLock()
        self._text = ""
        #: whether others have started a line and not ended it
        self._line_begun = False

    def show(self, text: str) -> None:
        """Draw ``text`` instead of the current line; truncated to the width of the terminal, because a line that wraps
        cannot be redrawn."""
        with self._lock:
            self._text = printable(text)[: max(1, self._columns() - 1)]
            self._draw()

    def clear(self) -> None:
        with self._lock:
            self._erase()
            self._text = ""

    @contextmanager
    def hidden(self, ends_line: bool = True) -> Iterator[None]:
        """Hide the line while the block runs, and after it until its output ends with a line break."""
        with self._lock:
            if not self._line_begun:
                self._erase()
            try:
                yield
            finally:
                self._line_begun = not ends_line
                self._draw()

    def _draw(self) -> None:
        if self._text and not self._line_begun:
            self._put(f"{_CLEAR}{self._text}")

    def _erase(self) -> None:
        if self._text:
            self._put(_CLEAR)

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal has been closed
            self._text = ""

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


def can_show_status(stream: TextIO | None) -> bool:
    """Return whether ``stream`` is a terminal that can redraw a line."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextmanager
def status_line(stream: TextIO) -> Iterator[StatusLine]:
    """Show a status line while the block runs; at most one per process. ``stream`` is the terminal itself: the line is
    our own plain text."""
    global _current
    line = _current = StatusLine(stream)
    try:
        yield line
    finally:
        line.clear()
        _current = None


@contextmanager
def hide_status_line(ends_line: bool = True) -> Iterator[None]:
    """Hide the status line, if one is shown, for code that writes to the terminal."""
    line = _current
    if line is None:
        yield
        return
    with line.hidden(ends_line):
        yield
