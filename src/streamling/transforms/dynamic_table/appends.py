"""What a pipeline has added to a table and not yet stored there.

A value that a row appends is seen by the rows after it at once, but is stored only when the epoch of that row is
final: a crash before that makes the row come again, and nothing may hide it then.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence


class PendingAppends:
    """Values under way into a table. Calls come from the threads of flows and of checkpoints."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: value → number of the row that appends it first, of the batch that is being handed on
        self._arriving: Mapping[str, int] = {}
        self._after = 0
        self._owner: int | None = None
        #: value → the last epoch that the row appending it came after
        self._pending: dict[str, int] = {}
        #: values that became pending since somebody asked for them; None: nobody did yet
        self._news: set[str] | None = None

    def begin(self, first_rows: Mapping[str, int], after: int) -> None:
        """A batch is about to be handed on by this thread; it comes after the marker of epoch ``after``."""
        with self._lock:
            self._arriving, self._after, self._owner = first_rows, after, threading.get_ident()

    def end(self, complete: bool) -> None:
        """The batch has been handed on. If that failed, its rows may come again and must not find themselves."""
        with self._lock:
            if complete:
                for value in self._arriving:
                    self._pending.setdefault(value, self._after)
                if self._news is not None:
                    self._news.update(self._arriving)
            self._arriving, self._owner = {}, None

    def take_new(self) -> Collection[str]:
        """The values that earlier batches have appended and that are not stored, at the first call; then those that
        batches appended since the last one."""
        with self._lock:
            taken = set(self._pending) if self._news is None else self._news
            self._news = set()
            return taken

    def are_arriving(self) -> bool:
        """Whether the batch that this thread hands on appends something, so that its rows find different things."""
        with self._lock:
            return bool(self._arriving) and self._owner == threading.get_ident()

    def pending(self, values: Sequence[str]) -> list[bool]:
        """Which of ``values`` earlier batches have appended."""
        with self._lock:
            return [value in self._pending for value in values]

    def first_rows(self, values: Sequence[str]) -> list[int | None]:
        """The row of the batch under way that appends each of ``values``. Only the thread that hands it on knows an
        order between its rows and those it asks for; any other sees the batch when it is through."""
        with self._lock:
            if self._owner != threading.get_ident():
                return [None] * len(values)
            return [self._arriving.get(value) for value in values]

    def of_epoch(self, epoch: int) -> list[str]:
        """The values that rows before the marker of ``epoch`` appended and that are not stored yet."""
        with self._lock:
            return [value for value, after in self._pending.items() if after < epoch]

    def stored(self, values: Collection[str]) -> None:
        """``values`` are in the table now."""
        with self._lock:
            for value in values:
                self._pending.pop(value, None)
