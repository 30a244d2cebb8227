"""The last line of a terminal: drawn in place, and taken away while anything else is written."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from streamling.output.printable import printable

_CLEAR = "\r\x1b[K"

_current: StatusLine | None = None


class StatusLine:
    """One line on ``stream``, which is a terminal. May be used from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # whoever writes inside `set_aside` may do so again, as a print inside a print does
        self._lock = threading.RLock()
        self._text = ""
        #: whether others have begun a line and not ended it
        self._line_begun = False

    def show(self, text: str) -> None:
        """Draw ``text`` instead of what is there; cut where the terminal ends, as a line that wraps cannot be drawn
        over."""
        with self._lock:
            self._text = printable(text)[: max(1, self._columns() - 1)]
            self._draw()

    def clear(self) -> None:
        with self._lock:
            self._erase()
            self._text = ""

    @contextmanager
    def set_aside(self, ends_line: bool = True) -> Iterator[None]:
        """Nothing is drawn while the block runs, nor after it unless what it writes ends with a line break."""
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
    """Whether ``stream`` is a terminal that can draw a line again."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextmanager
def status_line(stream: TextIO) -> Iterator[StatusLine]:
    """A status line while the block runs, one in a process. ``stream`` is the terminal itself: what is shown is plain
    text of ours."""
    global _current
    line = _current = StatusLine(stream)
    try:
        yield line
    finally:
        line.clear()
        _current = None


@contextmanager
def status_set_aside(ends_line: bool = True) -> Iterator[None]:
    """For whoever writes to the terminal while a status line may be shown."""
    line = _current
    if line is None:
        yield
        return
    with line.set_aside(ends_line):
        yield
