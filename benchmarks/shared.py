"""Many pipelines on one topic, each with a filter of its own: what they cost, and how long their rows take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.arrivals import KafkaArrivals
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.load import PERCENTILES, Load, percentiles, pipeline_text
from benchmarks.served import Served, served
from benchmarks.sizes import Sizes
from benchmarks.usage import family, usage
from benchmarks.workbench import Scenario
from streamling.dev.services.extra import require

#: messages per second in the topic
_RATE = 200
#: % of a core, and milliseconds for 95 % of the rows, by the number of pipelines
_GOALS = {100: (60.0, 100.0), 1_000: (120.0, 250.0)}

_SQL = "SELECT id, sent, upper(name) AS name FROM messages WHERE id % {of} = {number}"


@dataclass(frozen=True)
class _Cost:
    cpu_percent: float
    memory_mb: float
    threads: int
    connections: int
    milliseconds: dict[int, float]


class Shared(Scenario):
    """A server with one pipeline, then with more: Kafka → SQL → Kafka. Each filter passes one message out of 100, or
    out of as many as there are pipelines if these are more."""

    title = "shared"
    needs_services = True
    needs_proc = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return len(sizes.shared_pipelines)

    def figures(self) -> list[Figure]:
        return [figure for count in self._bench.sizes.shared_pipelines for figure in self._figures_of(count)]

    def _figures_of(self, count: int) -> Iterator[Figure]:
        cost = self._measure(count)
        name = f"{count} pipeline{'s' if count > 1 else ''}"
        cpu_goal, latency_goal = _GOALS.get(count, (None, None))
        yield Figure(self.title, name, Unit.CORE, [cost.cpu_percent], goal=_goal(cpu_goal))
        for percentile in PERCENTILES:
            goal = _goal(latency_goal) if percentile == 95 else None
            yield Figure(
                self.title, f"{name}, p{percentile}", Unit.MILLISECONDS, [cost.milliseconds[percentile]], goal=goal
            )
        yield Figure(self.title, f"{name}, memory", Unit.MEGABYTES, [cost.memory_mb])
        yield Figure(self.title, f"{name}, JVM threads", Unit.COUNT, [cost.threads])
        yield Figure(self.title, f"{name}, connections to Kafka", Unit.COUNT, [cost.connections])

    def _measure(self, count: int) -> _Cost:
        bench = self._bench
        bench.step(f"shared: {count} pipelines")
        env, place = bench.services_env, bench.place("shared")
        topic = bench.services.table().replace("changes", "shared")
        with KafkaArrivals(bench.services, f"{topic}_out") as arrivals, served(place, env) as server:
            load, of = Load(bench.services.brokers, topic, arrivals), max(100, count)
            passes = lambda id: id % of < count  # noqa: E731
            for number in range(count):
                transform = f"{{type: sql, primary_key: id, sql: '{_SQL.format(of=of, number=number)}'}}"
                server.create(f"filter-{number}", pipeline_text(topic, arrivals, transform), "xs")
            server.wait_until_ready()
            load.run(_RATE, bench.sizes.shared_warm_up, passes)
            return self._cost(server, load, passes)

    def _cost(self, server: Served, load: Load, passes: Callable[[int], bool]) -> _Cost:
        before, began = usage(server.pid), time.monotonic()
        arrived = load.run(_RATE, self._bench.sizes.shared_seconds, passes)
        after, seconds = usage(server.pid), time.monotonic() - began
        cpu = 100 * (after.cpu_seconds - before.cpu_seconds) / seconds
        java = _java(server.pid)
        connections = _connections(java, self._bench.services.brokers)
        return _Cost(cpu, after.memory_mb, java.num_threads(), connections, percentiles(arrived))


def _java(pid: int) -> Any:
    """Return the JVM of the server."""
    processes = map(require("psutil").Process, family(pid))
    return next(process for process in processes if process.name() == "java")


def _connections(java: Any, brokers: str) -> int:
    """Return the number of connections to the brokers."""
    ports = {int(broker.rpartition(":")[2]) for broker in brokers.split(",")}
    return sum(bool(each.raddr) and each.raddr.port in ports for each in java.net_connections("tcp"))


def _goal(bound: float | None) -> Goal | None:
    return None if bound is None else Goal(bound=bound)
