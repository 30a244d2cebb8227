"""A dynamic table in memory that follows what others write to it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Set
from typing import Any, Final, Protocol

from streamling.transforms.dynamic_table.store import TableStore

#: if finding the newest time takes longer, it is probably a full table scan
_SLOW: Final = 0.2


class TimestampedStore(TableStore, Protocol):
    """A store whose entries have a time of writing."""

    def load(self) -> tuple[Iterable[str], Any]:
        """Return all values, and the newest time among them."""

    def newest(self) -> Any:
        """Return the newest time, or None if there are no entries."""

    def since(self, moment: Any) -> Iterable[str]:
        """Return the values written at ``moment`` or later; None: all."""


class CachedStore:
    """Looks up values in memory. Checks for new entries at most once per ``debounce`` seconds; entries that others
    delete stay."""

    durable = True

    def __init__(
        self,
        store: TimestampedStore,
        *,
        debounce: float,
        log: logging.Logger,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.debounce = debounce
        self._log = log
        self._now = now
        self._lock = threading.Lock()
        self._values: set[str] | None = None
        #: values from elsewhere since the last `take_new`; None before the first call
        self._new_values: set[str] | None = None
        self._newest: Any = None
        self._refreshed_at = 0.0
        self._slow_logged = False

    def find_existing(self, values: Collection[str]) -> Set[str]:
        with self._lock:
            cached = self._get_refreshed()
            return {value for value in values if value in cached}

    def add(self, values: Collection[str]) -> None:
        self.store.add(values)
        with self._lock:
            if self._values is not None:
                self._values.update(values)

    def take_new(self) -> Collection[str]:
        with self._lock:
            cached = self._get_refreshed()
            taken = set(cached) if self._new_values is None else self._new_values
            self._new_values = set()
            return taken

    def close(self) -> None:
        self.store.close()

    def _get_refreshed(self) -> set[str]:
        if self._values is None:
            loaded, self._newest = self.store.load()
            self._values = set(loaded)
            self._refreshed_at = self._now()
            self._log.info("loaded %d values into memory", len(self._values))
        elif self._now() - self._refreshed_at >= self.debounce:
            self._refresh(self._values)
        return self._values

    def _refresh(self, cached: set[str]) -> None:
        began = time.monotonic()
        newest = self.store.newest()
        if time.monotonic() - began >= _SLOW and not self._slow_logged:
            self._slow_logged = True
            self._log.warning(
                "finding the newest entry took more than %g s; check that the time column has an index", _SLOW
            )
        if newest is not None and (self._newest is None or newest > self._newest):
            # from the previous newest on, inclusive: several entries may have the same time
            found = set(self.store.since(self._newest)) - cached
            cached |= found
            if self._new_values is not None:
                self._new_values |= found
            self._newest = newest
        self._refreshed_at = self._now()
