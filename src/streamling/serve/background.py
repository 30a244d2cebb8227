"""Work on daemon threads, so many at a time."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from streamling.threads import ContextThread


class Background:
    """Unlike those of an executor, these threads do not keep the process from exiting: one of them may wait for a
    system that does not respond."""

    def __init__(self, limit: int) -> None:
        self._slots = threading.Semaphore(limit)

    def run(self, work: Callable[[], None], name: str, context: contextvars.Context | None = None) -> None:
        """Run ``work`` in ``context``, by default the current one, as soon as fewer than the limit are running."""
        (context or contextvars.copy_context()).run(ContextThread, lambda: self._work(work), name).start()

    def _work(self, work: Callable[[], None]) -> None:
        with self._slots:
            work()
