"""What became of the rows of a sink."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Delivery:
    """Rows by what became of them. Rejected ones are counted as dead letters."""

    #: rows that the target has acknowledged
    delivered: int = 0
    #: rows that were not sent because a later row of the same batch replaces them
    deduplicated: int = 0
    #: rows that the sink has left out, as its options say
    skipped: int = 0

    @property
    def rows(self) -> int:
        return self.delivered + self.deduplicated + self.skipped

    def __add__(self, other: Delivery) -> Delivery:
        return Delivery(
            self.delivered + other.delivered, self.deduplicated + other.deduplicated, self.skipped + other.skipped
        )


class Deliveries:
    """Adds up the rows of one instance of a sink, from any thread."""

    def __init__(self) -> None:
        self.total = Delivery()
        self._lock = threading.Lock()
        self._listener: Callable[[Delivery], None] = lambda delivery: None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without counts: a task on an executor starts with none."""
        return Deliveries, ()

    def on_delivery(self, listener: Callable[[Delivery], None]) -> None:
        """Call ``listener`` with everything that is added from now on."""
        self._listener = listener

    def add(self, delivery: Delivery) -> None:
        with self._lock:
            self._add(delivery)

    def settle(self, rows: int) -> None:
        """Count the first ``rows`` rows of the instance, which are durable, as delivered unless it has reported
        them."""
        with self._lock:
            if (unreported := rows - self.total.rows) > 0:
                self._add(Delivery(unreported))

    def _add(self, delivery: Delivery) -> None:
        self.total += delivery
        self._listener(delivery)
