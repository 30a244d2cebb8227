"""Where the values of a dynamic table are kept."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Protocol


class Store(Protocol):
    """A set of texts. Calls may come from several threads."""

    #: whether what was added outlives the process
    durable: bool

    def find_existing(self, values: Collection[str]) -> Set[str]:
        """Those of ``values``, each given once, that are in the set."""

    def add(self, values: Collection[str]) -> None:
        """Put ``values`` into the set, durably where it is durable at all. May be called again with the same."""

    def take_new(self) -> Collection[str] | None:
        """All values at the first call, then those that came from elsewhere since the last one; none ever goes. None:
        they are not in the memory of this process."""

    def close(self) -> None:
        """Let go of everything."""


class MemoryStore:
    """Lives and dies with the process."""

    durable = False

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._told = False

    def find_existing(self, values: Collection[str]) -> Set[str]:
        # not values & self._values: adding from another thread must not disturb the walk over a large set
        return {value for value in values if value in self._values}

    def add(self, values: Collection[str]) -> None:
        self._values.update(values)

    def take_new(self) -> Collection[str]:
        told, self._told = self._told, True
        return () if told else set(self._values)

    def close(self) -> None:
        self._values = set()
