"""Collects what pipelines leave behind when they end.

Their parts refer to each other, so that only Python's garbage collector finds them. It runs after a number of new
objects, which a server with nothing to do never creates, while the garbage keeps Spark sessions in the JVM, sandboxes
and files.
"""

from __future__ import annotations

import gc
import threading
import time

#: between the end of a pipeline and the collection, for others that end at the same time
_PAUSE_SECONDS = 1.0
#: A collection stops all pipelines. This many times its duration passes before the next one.
_PAUSES = 50


class GarbageCollection:
    """Runs on a thread of its own, after `request`."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._pause = _PAUSE_SECONDS
        self._thread = threading.Thread(target=self._run, name="garbage", daemon=True)

    def start(self) -> None:
        gc.freeze()  # modules live as long as the server: a collection takes 0.15 s less without their 100,000 objects
        self._thread.start()

    def request(self) -> None:
        """Collect soon; returns immediately."""
        self._requested.set()

    def _run(self) -> None:
        while True:
            self._requested.wait()
            time.sleep(self._pause)
            self._requested.clear()
            began = time.monotonic()
            gc.collect()
            self._pause = max(_PAUSE_SECONDS, _PAUSES * (time.monotonic() - began))
