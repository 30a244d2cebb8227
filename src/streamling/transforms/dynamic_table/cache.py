"""A dynamic table in memory, kept up with what others write into it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Set
from typing import Any, Final, Protocol

from streamling.transforms.dynamic_table.store import Store

#: a look at the newest time that takes longer is probably a walk through the whole table
_SLOW: Final = 0.2


class TimestampedStore(Store, Protocol):
    """A store whose entries say when they were written."""

    def load(self) -> tuple[Iterable[str], Any]:
        """All values, and the newest time among them."""

    def newest(self) -> Any:
        """The newest time; None when there are no entries."""

    def since(self, moment: Any) -> Iterable[str]:
        """Values written at ``moment`` or later; None: all."""


class CachedStore:
    """Answers from memory. Looks for new entries at most once per ``debounce`` seconds; what others delete stays."""

    durable = True

    def __init__(
        self,
        store: TimestampedStore,
        *,
        debounce: float,
        log: logging.Logger,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._debounce = debounce
        self._log = log
        self._now = now
        self._lock = threading.Lock()
        self._values: set[str] | None = None
        #: values from elsewhere since somebody asked for them; None: nobody did yet
        self._news: set[str] | None = None
        self._newest: Any = None
        self._refreshed_at = 0.0
        self._slow_logged = False

    def find_existing(self, values: Collection[str]) -> Set[str]:
        with self._lock:
            cached = self._refreshed()
            return {value for value in values if value in cached}

    def add(self, values: Collection[str]) -> None:
        self._store.add(values)
        with self._lock:
            if self._values is not None:
                self._values.update(values)

    def take_new(self) -> Collection[str]:
        with self._lock:
            cached = self._refreshed()
            taken = set(cached) if self._news is None else self._news
            self._news = set()
            return taken

    def close(self) -> None:
        self._store.close()

    def _refreshed(self) -> set[str]:
        if self._values is None:
            loaded, self._newest = self._store.load()
            self._values = set(loaded)
            self._refreshed_at = self._now()
            self._log.info("%d values in memory", len(self._values))
        elif self._now() - self._refreshed_at >= self._debounce:
            self._refresh(self._values)
        return self._values

    def _refresh(self, cached: set[str]) -> None:
        began = time.monotonic()
        newest = self._store.newest()
        if time.monotonic() - began >= _SLOW and not self._slow_logged:
            self._slow_logged = True
            self._log.warning("finding the newest entry took over %g s; is there an index on the time column?", _SLOW)
        if newest is not None and (self._newest is None or newest > self._newest):
            # from the old newest on, not after it: several entries may have the same time
            found = set(self._store.since(self._newest)) - cached
            cached |= found
            if self._news is not None:
                self._news |= found
            self._newest = newest
        self._refreshed_at = self._now()
