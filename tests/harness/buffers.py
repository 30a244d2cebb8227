"""Messages in the driver's JVM, and a thread that waits for them."""

from __future__ import annotations

import threading
import time
from typing import Any

from streamling.connectors.kafka.reader import MessageBuffer, Taken
from streamling.plugins.sources import Wait


class WaitingBuffer(MessageBuffer):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._ready = threading.Event()
        super().__init__(*arguments, self._ready.set, **settings)

    def take(self, seconds: float, least: int, most: int) -> Taken | None:
        """Take the next batch; None if there is none in this time, or when woken."""
        until = time.monotonic() + seconds
        while isinstance(taken := self.poll(least, most), Wait):
            if not self._ready.wait(max(0.0, until - time.monotonic())):
                self.wake()
                until += 60
            self._ready.clear()
        return taken
