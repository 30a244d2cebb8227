"""Measurements of a running pipeline: counters, gauges and histograms by name and tags.

Nodes record through the `Metrics` of their context; the values stay here until someone takes a `snapshot`. Nothing is
pushed, formatted or computed before that, so recording costs a dictionary lookup under a lock.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from streamling.errors import StreamlingError

Kind = Literal["counter", "gauge", "histogram"]
Tags = tuple[tuple[str, str], ...]
#: node, name and the node's own tags: the identity of a series
SeriesKey = tuple[str, str, Tags]

#: the name under which the pipeline as a whole records
PIPELINE = ""

#: upper bounds of a histogram's buckets, in milliseconds: 100 ms to an hour
BUCKETS = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 1_800_000, 3_600_000)


@dataclass(frozen=True)
class Distribution:
    """Observations of a histogram, in milliseconds; the last bucket holds values above all bounds."""

    count: int
    sum: float
    buckets: tuple[int, ...]


@dataclass(frozen=True)
class Series:
    """One series at the time of a snapshot."""

    name: str
    kind: Kind
    tags: Mapping[str, str]
    value: float | Distribution
    #: stable across snapshots, unlike tags that are added later
    key: SeriesKey

    @classmethod
    def of_object(cls, given: Mapping[str, Any]) -> Self:
        """Return the series that `dataclasses.asdict` and JSON have made ``given`` of."""
        node, name, tags = given["key"]
        value = given["value"]
        if isinstance(value, Mapping):
            value = Distribution(value["count"], value["sum"], tuple(value["buckets"]))
        key = (node, name, tuple((tag, each) for tag, each in tags))
        return cls(given["name"], given["kind"], given["tags"], value, key)


class MetricStore:
    """All measurements of one run. ``denied`` names are not recorded; ``tags`` apply to every series."""

    def __init__(self, denied: Collection[str] = (), tags: Mapping[str, str] | None = None) -> None:
        #: Unix time when measuring started
        self.began = time.time()
        self._denied = frozenset(denied)
        self._tags = dict(tags or {})
        self._nodes: dict[str, dict[str, str]] = {}
        self._kinds: dict[str, Kind] = {}
        self._series: dict[SeriesKey, _Value] = {}
        self._lock = threading.Lock()
        self._hooks: tuple[Callable[[], None], ...] = ()

    def before_snapshot(self, hook: Callable[[], None]) -> None:
        """Call ``hook`` before every snapshot: it records what is only measured on request."""
        self._hooks = (*self._hooks, hook)

    def add_tags(self, node: str, tags: Mapping[str, str]) -> None:
        """Add ``tags`` to all series of ``node``, including existing ones; the newest value of a tag wins."""
        with self._lock:
            self._nodes.setdefault(node, {}).update(tags)

    def of(self, node: str) -> NodeMetrics:
        """Return the metrics object of ``node``."""
        return NodeMetrics(self, node)

    def value(self, name: str, node: str = PIPELINE, **tags: str) -> float | Distribution | None:
        """Return the current value for exactly these tags; None if there is none."""
        with self._lock:
            found = self._series.get((node, name, _sorted(tags)))
            return None if found is None else found.read()

    def snapshot(self) -> list[Series]:
        """Return everything measured so far."""
        for hook in self._hooks:
            hook()
        with self._lock:
            return [
                Series(key[1], self._kinds[key[1]], self._all_tags(key), value.read(), key)
                for key, value in self._series.items()
            ]

    def _all_tags(self, key: SeriesKey) -> dict[str, str]:
        node, _, own = key
        return {**self._tags, **self._nodes.get(node, {}), **dict(own)}

    def record(self, kind: Kind, node: str, name: str, value: float, tags: Mapping[str, str] | None) -> None:
        if name in self._denied:
            return
        with self._lock:
            self._found(kind, (node, name, _sorted(tags))).add(value)

    def record_distribution(self, node: str, name: str, total: float, buckets: Sequence[int]) -> None:
        if name in self._denied:
            return
        with self._lock:
            histogram = self._found("histogram", (node, name, ()))
            assert isinstance(histogram, _Histogram)
            histogram.add_many(total, buckets)

    def _found(self, kind: Kind, key: SeriesKey) -> _Value:
        name = key[1]
        if (known := self._kinds.setdefault(name, kind)) != kind:
            raise StreamlingError.user(f"metric '{name}' is a {known} and cannot also be a {kind}: use another name")
        if key not in self._series:
            self._series[key] = _VALUES[kind]()
        return self._series[key]

    def remove(self, node: str, name: str, tags: Mapping[str, str] | None) -> None:
        with self._lock:
            self._series.pop((node, name, _sorted(tags)), None)


class NodeMetrics:
    """The measurements of one node; thread-safe."""

    def __init__(self, store: MetricStore, node: str) -> None:
        self._store = store
        self._node = node

    def count(self, name: str, value: int = 1, tags: Mapping[str, str] | None = None) -> None:
        if value < 0:
            raise StreamlingError.user(f"metric '{name}' is a counter and cannot be changed by {value}: use a gauge")
        self._store.record("counter", self._node, name, value, tags)

    def latency(self, name: str, seconds: float, tags: Mapping[str, str] | None = None) -> None:
        self._store.record("histogram", self._node, name, seconds * 1000, tags)

    def distribution(self, name: str, total: float, buckets: Sequence[int]) -> None:
        """Record many observations of a latency at once: the sum of milliseconds, and how many are in each bucket."""
        self._store.record_distribution(self._node, name, total, buckets)

    def gauge(self, name: str, value: float, tags: Mapping[str, str] | None = None) -> None:
        self._store.record("gauge", self._node, name, value, tags)

    def remove(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        self._store.remove(self._node, name, tags)


def _sorted(tags: Mapping[str, str] | None) -> Tags:
    return tuple(sorted(tags.items())) if tags else ()


class _Value(ABC):
    def __init__(self) -> None:
        self.total: float = 0

    @abstractmethod
    def add(self, value: float) -> None: ...

    def read(self) -> float | Distribution:
        return self.total


class _Counter(_Value):
    def add(self, value: float) -> None:
        self.total += value


class _Gauge(_Value):
    def add(self, value: float) -> None:
        self.total = value


class _Histogram(_Value):
    def __init__(self) -> None:
        super().__init__()
        self._buckets = [0] * (len(BUCKETS) + 1)

    def add(self, value: float) -> None:
        self.total += value
        self._buckets[bisect_left(BUCKETS, value)] += 1

    def add_many(self, total: float, buckets: Sequence[int]) -> None:
        self.total += total
        self._buckets = [old + new for old, new in zip(self._buckets, buckets, strict=True)]

    def read(self) -> Distribution:
        return Distribution(sum(self._buckets), self.total, tuple(self._buckets))


_VALUES: Final[Mapping[Kind, type[_Value]]] = {"counter": _Counter, "gauge": _Gauge, "histogram": _Histogram}
