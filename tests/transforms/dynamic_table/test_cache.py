"""A cache in front of a store that counts its calls."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from streamling.transforms.dynamic_table.cache import CachedStore

LOG = logging.getLogger("test")


class Shelf:
    """A store whose clock is a counter."""

    durable = True

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}
        self.asked: list[str] = []

    def find_existing(self, values: Collection[str]) -> set[str]:
        raise AssertionError("a cache answers by itself")

    def add(self, values: Collection[str]) -> None:
        for value in values:
            self.entries.setdefault(value, len(self.entries))

    def load(self) -> tuple[list[str], Any]:
        self.asked.append("load")
        return list(self.entries), self._newest()

    def newest(self) -> Any:
        self.asked.append("newest")
        return self._newest()

    def since(self, moment: Any) -> list[str]:
        self.asked.append(f"since {moment}")
        return [value for value, written in self.entries.items() if moment is None or written >= moment]

    def close(self) -> None:
        self.asked.append("close")

    def _newest(self) -> int | None:
        return max(self.entries.values(), default=None)


class Hands:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_loads_once_and_refreshes_once_per_window():
    shelf, clock = Shelf(), Hands()
    shelf.add(["a"])
    cache = CachedStore(shelf, debounce=1.0, log=LOG, now=clock)
    assert cache.find_existing(["a", "b"]) == {"a"}
    shelf.add(["b"])
    clock.now = 0.9
    assert cache.find_existing(["a", "b"]) == {"a"}
    clock.now = 1.0
    assert cache.find_existing(["a", "b"]) == {"a", "b"}
    clock.now = 2.5
    assert cache.find_existing(["b"]) == {"b"}
    assert shelf.asked == ["load", "newest", "since 0", "newest"]


def test_without_a_window_every_batch_refreshes():
    shelf, clock = Shelf(), Hands()
    cache = CachedStore(shelf, debounce=0, log=LOG, now=clock)
    assert cache.find_existing(["a"]) == set()
    shelf.add(["a"])
    assert cache.find_existing(["a"]) == {"a"}
    assert shelf.asked == ["load", "newest", "since None"]


def test_own_appends_are_seen_immediately_and_reach_the_store():
    shelf = Shelf()
    cache = CachedStore(shelf, debounce=60, log=LOG, now=Hands())
    assert cache.find_existing(["a"]) == set()
    cache.add(["a"])
    assert cache.find_existing(["a"]) == {"a"}
    assert list(shelf.entries) == ["a"]


def test_entries_that_others_delete_stay():
    shelf, clock = Shelf(), Hands()
    shelf.add(["a"])
    cache = CachedStore(shelf, debounce=1, log=LOG, now=clock)
    cache.find_existing(["a"])
    shelf.entries.clear()
    clock.now = 5
    assert cache.find_existing(["a"]) == {"a"}
