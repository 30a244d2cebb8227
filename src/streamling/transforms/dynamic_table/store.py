"""Stores for the values of a dynamic table."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Protocol


class TableStore(Protocol):
    """A set of texts. Thread-safe."""

    #: whether added values outlive the process
    durable: bool

    def find_existing(self, values: Collection[str]) -> Set[str]:
        """Return those of ``values``, which are distinct, that are in the set."""

    def add(self, values: Collection[str]) -> None:
        """Add ``values`` to the set, durably if the store is durable. Idempotent."""

    def take_new(self) -> Collection[str] | None:
        """Return all values at the first call, then those added from elsewhere since the last call; values are never
        removed. None: they are not in the memory of this process."""

    def close(self) -> None:
        """Release all resources."""


class MemoryStore:
    """A store that lives as long as the process."""

    durable = False

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._is_taken = False

    def find_existing(self, values: Collection[str]) -> Set[str]:
        # not values & self._values: another thread may add values during the iteration over a large set
        return {value for value in values if value in self._values}

    def add(self, values: Collection[str]) -> None:
        self._values.update(values)

    def take_new(self) -> Collection[str]:
        was_taken, self._is_taken = self._is_taken, True
        return () if was_taken else set(self._values)

    @property
    def values(self) -> set[str]:
        return set(self._values)

    def close(self) -> None:
        self._values = set()


class ReadOnlyStore:
    """A store that is only read: values that are added stay in this process."""

    durable = False

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._added = MemoryStore()

    def find_existing(self, values: Collection[str]) -> Set[str]:
        return self._added.find_existing(values) | self._store.find_existing(values)

    def add(self, values: Collection[str]) -> None:
        self._added.add(values)

    def take_new(self) -> None:
        return None

    def close(self) -> None:
        self._store.close()
