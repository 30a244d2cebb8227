"""What a pipeline costs at a rate of messages, and how long they take: CPU time is what most pipelines are paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.arrivals import Arrivals, KafkaArrivals, PostgresArrivals
from benchmarks.children import STREAMLING, RunningProcess, running
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.load import PERCENTILES, Load, percentiles, pipeline_text
from benchmarks.sizes import Sizes
from benchmarks.usage import usage
from benchmarks.workbench import Scenario

#: messages per second
_RATES = (1, 50, 1_000, 20_000)
_TARGETS: Mapping[str, type[Arrivals]] = {"Kafka": KafkaArrivals, "Postgres": PostgresArrivals}
_LATENCIES = ("standard", "realtime")
#: % of a core by rate, with the default latency
_CPU_GOALS = {50: 3.0, 1_000: 10.0, 20_000: 25.0}
#: milliseconds by percentile, by latency
_GOALS = {"standard": {50: 15.0, 99: 50.0}, "realtime": {50: 3.0}}


@dataclass(frozen=True)
class _AtRate:
    cpu_percent: float
    milliseconds: Mapping[int, float]


class Rate(Scenario):
    """Each pipeline is a process of its own. CPU time is that of Python and the JVM."""

    title = "rate"
    needs_services = True
    needs_proc = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return len(_TARGETS) * len(_LATENCIES) * (1 + len(_RATES))

    def figures(self) -> list[Figure]:
        return [figure for target in _TARGETS for latency in _LATENCIES for figure in self._figures_of(target, latency)]

    def _figures_of(self, target: str, latency: str) -> Iterator[Figure]:
        name = f"Kafka → SQL → {target}{', realtime' if latency == 'realtime' else ''}"
        for rate, found in self._measure(name, target, latency).items():
            cpu = _CPU_GOALS.get(rate) if latency == "standard" else None
            yield Figure(self.title, f"{name}, {rate}/s", Unit.CORE, [found.cpu_percent], goal=_goal(cpu))
            for percentile in PERCENTILES:
                yield Figure(
                    self.title,
                    f"{name}, {rate}/s, p{percentile}",
                    Unit.MILLISECONDS,
                    [found.milliseconds[percentile]],
                    goal=_goal(_GOALS[latency].get(percentile)),
                )

    def _measure(self, name: str, target: str, latency: str) -> dict[int, _AtRate]:
        bench = self._bench
        bench.step(f"rate: {name}, start")
        env, place = bench.services_env, bench.place("rate")
        topic = bench.services.table().replace("changes", "rate")
        with _TARGETS[target](bench.services, f"{topic}_out") as arrivals:
            load = Load(bench.services.brokers, topic, arrivals)
            (place / "pipeline.yaml").write_text(pipeline_text(topic, arrivals, latency=latency), encoding="utf-8")
            with running([*STREAMLING, "run", "pipeline.yaml"], cwd=place, env=env) as process:
                load.start(process)
                load.run(max(_RATES), bench.sizes.rate_warm_up)
                return {rate: self._at_rate(name, rate, load, process) for rate in _RATES}

    def _at_rate(self, name: str, rate: int, load: Load, process: RunningProcess) -> _AtRate:
        self._bench.step(f"rate: {name}, {rate}/s")
        seconds = self._bench.sizes.latency_seconds
        before = usage(process.pid).cpu_seconds
        arrived = load.run(rate, seconds)
        spent = usage(process.pid).cpu_seconds - before
        return _AtRate(100 * spent / seconds, percentiles(arrived))


def _goal(bound: float | None) -> Goal | None:
    return None if bound is None else Goal(bound=bound)
