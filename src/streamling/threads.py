"""Threads that run in the context of their creator."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable


class ContextThread(threading.Thread):
    """Runs in a copy of the context in which it was created, as Python 3.14 can do without help; a daemon thread. With
    it, each log line of a process with several pipelines names its pipeline."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.context = contextvars.copy_context()
        self._work = target

    def run(self) -> None:
        self.context.run(self._work)
