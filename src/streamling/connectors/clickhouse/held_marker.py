"""A marker that is acknowledged later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import pyarrow as pa

#: How long the rows of a replay may wait for the rest of their block. It arrives as soon as the source delivers more,
#: which takes some time after a start. If it does not arrive, the source has lost rows or now has others.
_SECONDS: Final = 60.0


class HeldMarker:
    """At most one marker whose rows are not durable yet. The caller makes sure that only one thread uses it."""

    def __init__(self) -> None:
        self._acknowledge: Callable[[pa.RecordBatch | None], None] | None = None
        self._rows = 0
        self._timer: threading.Timer | None = None

    @property
    def is_set(self) -> bool:
        return self._acknowledge is not None

    def hold(self, acknowledge: Callable[[pa.RecordBatch | None], None], rows: int) -> None:
        """Keep a marker until `release`; ``rows`` in front of it wait. One that is already held belongs to an epoch
        that has been given up."""
        self.cancel()
        self._acknowledge, self._rows = acknowledge, rows

    def give_up_later(self, give_up: Callable[[], None]) -> None:
        """Call ``give_up`` on another thread if the marker has not been released by then."""
        self._timer = threading.Timer(_SECONDS, give_up)
        self._timer.daemon = True
        self._timer.start()

    def release(self, block: pa.RecordBatch | None = None) -> None:
        """Acknowledge the marker, if there is one. ``block`` begins with the rows that waited and is durable:
        ``acknowledge`` gets those that follow them."""
        acknowledge = self._acknowledge
        self.cancel()
        if acknowledge is not None:
            acknowledge(None if block is None else block.slice(self._rows))

    def cancel(self) -> None:
        """Forget the marker."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._acknowledge = None
