"""Runs an action periodically on a background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def run_periodically(action: Callable[[], None], seconds: float | Callable[[], float], *, name: str) -> Iterator[None]:
    """Call ``action`` every ``seconds`` while the block runs; the first call is after the first interval.
    ``seconds`` may compute each interval."""
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(seconds() if callable(seconds) else seconds):
            action()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
