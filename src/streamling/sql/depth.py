"""How deep SQL may be nested, and room on Python's stack for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: brackets, calls and CASE inside each other
MOST_LEVELS: Final = 100
#: characters of one expression as Spark gets it; some functions mention their arguments several times
MOST_CHARACTERS: Final = 1_000_000
#: the parser takes about 25 calls for a level; calls from Python to Python take nothing of the thread's stack
_CALLS: Final = 20_000

_lock = threading.Lock()
_inside = 0
_usual = 0


@contextmanager
def room() -> Iterator[None]:
    """Allows as many calls inside each other as the deepest SQL needs. The limit is the whole interpreter's: the last
    thread to leave sets it back."""
    global _inside, _usual
    with _lock:
        if not _inside:
            _usual = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual, _CALLS))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                sys.setrecursionlimit(_usual)
