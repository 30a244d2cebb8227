"""Memory: what all processes of a pipeline use while millions of records pass, and while a slow sink causes
back-pressure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.changes import BATCH
from benchmarks.children import Worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.usage import Usage, usage
from benchmarks.workbench import Scenario

_SAMPLE_SECONDS = 0.25
#: fraction of the samples at the beginning that is ignored: the heap grows to the size it needs
_WARM_UP = 0.4
#: maximum deviation of memory from its median, in per cent
_GOAL = Goal(bound=10.0)


class Memory(Scenario):
    """Each job runs in a separate process, measured from its start."""

    title = "memory"
    needs_services = True
    needs_proc = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 3

    def figures(self) -> list[Figure]:
        sizes = self._bench.sizes
        self._bench.step("memory: a topic")
        topic = self._bench.topic(sizes.memory_records)
        slow = {"job": "to_slow_sink", "seconds": sizes.slow_seconds}
        few = min(BATCH * sizes.slow_batches, sizes.memory_records)
        return [
            *self._watched("Kafka → SQL → blackhole", topic, sizes.memory_records, job="to_nowhere", headers=True),
            *self._watched(f"sink of {sizes.slow_seconds:g} s per batch", topic, few, **slow),
        ]

    def _watched(self, name: str, topic: str, count: int, **job: object) -> list[Figure]:
        self._bench.step(f"memory: {name}")
        with self._bench.kafka_worker("ours", "memory") as process:
            used = sampled(process, lambda: process.do(side="ours", topic=topic, count=count, **job))
        held = [one.memory_mb for one in used]
        steady = smooth(held[int(len(held) * _WARM_UP) :])
        middle = median(steady)
        swing = max(abs(one - middle) for one in steady) / middle * 100
        return [
            Figure(self.title, f"{name}, JVM + Python", Unit.MEGABYTES, [middle]),
            Figure(self.title, f"{name}, away from it", Unit.PERCENT, [swing], goal=_GOAL),
        ]


def smooth(held: Sequence[float]) -> list[float]:
    """Return each sample as the median of itself and its neighbours: a process that has just been forked is counted
    with all of its parent's memory until it calls exec, which one sample in a minute catches."""
    return [median(held[max(0, at - 1) : at + 2]) for at in range(len(held))]


def sampled(process: Worker, work: Callable[[], object]) -> list[Usage]:
    """Return what is in use during ``work``, sampled periodically."""
    used: list[Usage] = []
    done = threading.Event()

    def watch() -> None:
        while True:
            used.append(usage(process.pid))
            if done.wait(_SAMPLE_SECONDS):
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return used
