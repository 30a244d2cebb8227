"""Raises Python's recursion limit temporarily.

Calls from Python to Python do not use the thread's stack, so deeply nested work only needs a higher limit. The limit
belongs to the whole interpreter: the highest limit that is currently requested applies, and the default is restored
afterwards.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_requested: list[int] = []
_usual = sys.getrecursionlimit()


@contextmanager
def recursion_limit(calls: int) -> Iterator[None]:
    """Allow at least ``calls`` nested calls in all threads while the block runs."""
    global _usual
    with _lock:
        if not _requested:
            _usual = sys.getrecursionlimit()
        _requested.append(calls)
        _apply()
    try:
        yield
    finally:
        with _lock:
            _requested.remove(calls)
            _apply()


def _apply() -> None:
    sys.setrecursionlimit(max([_usual, *_requested]))
