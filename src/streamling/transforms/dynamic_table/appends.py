"""Values that a pipeline has appended to a table but not yet stored there.

Later rows see an appended value immediately, but it is stored only when the epoch of its row is final: after a crash
before that, the row is replayed, and must not find its own value.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence


class PendingAppends:
    """Pending values of a table. Thread-safe: flows and checkpoints call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: value → number of the row that appends it first, for the batch that is being emitted
        self._arriving: Mapping[str, int] = {}
        self._after = 0
        self._owner: int | None = None
        #: value → the last epoch before the row that appends it
        self._pending: dict[str, int] = {}
        #: values that became pending since the last `take_new`; None before the first call
        self._new_values: set[str] | None = None

    def begin(self, first_rows: Mapping[str, int], after: int) -> None:
        """Start emitting a batch on this thread; it comes after the marker of epoch ``after``."""
        with self._lock:
            self._arriving, self._after, self._owner = first_rows, after, threading.get_ident()

    def end(self, complete: bool) -> None:
        """End emitting the batch. If that failed, its rows may be replayed and must not find their own values."""
        with self._lock:
            if complete:
                for value in self._arriving:
                    self._pending.setdefault(value, self._after)
                if self._new_values is not None:
                    self._new_values.update(self._arriving)
            self._arriving, self._owner = {}, None

    def take_new(self) -> Collection[str]:
        """Return the pending values of earlier batches at the first call; then those that batches appended since the
        last call."""
        with self._lock:
            taken = set(self._pending) if self._new_values is None else self._new_values
            self._new_values = set()
            return taken

    def are_arriving(self) -> bool:
        """Return whether the batch that this thread emits appends values, so that its rows see different tables."""
        with self._lock:
            return bool(self._arriving) and self._owner == threading.get_ident()

    def pending(self, values: Sequence[str]) -> list[bool]:
        """Return which of ``values`` earlier batches have appended."""
        with self._lock:
            return [value in self._pending for value in values]

    def first_rows(self, values: Sequence[str]) -> list[int | None]:
        """Return the row of the current batch that appends each of ``values``. Only the thread that emits the batch
        knows the order between its rows and look-ups; other threads see the batch when it is complete."""
        with self._lock:
            if self._owner != threading.get_ident():
                return [None] * len(values)
            return [self._arriving.get(value) for value in values]

    def of_epoch(self, epoch: int) -> list[str]:
        """Return the values that rows before the marker of ``epoch`` appended and that are not stored yet."""
        with self._lock:
            return [value for value, after in self._pending.items() if after < epoch]

    def remove_stored(self, values: Collection[str]) -> None:
        """Record that ``values`` are in the table now."""
        with self._lock:
            for value in values:
                self._pending.pop(value, None)
