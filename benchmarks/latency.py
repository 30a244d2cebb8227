"""Latency: from the moment a message is produced to the moment its row arrives behind the sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.arrivals import Arrivals, KafkaArrivals, PostgresArrivals, WebhookArrivals
from benchmarks.children import STREAMLING, running, twin
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.load import PERCENTILES, SQL, Load, percentiles, pipeline_text
from benchmarks.services import CONNECTORS
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario
from streamling.spark.jvm.jars import spark_package_jars

#: messages per second
_RATES = (1, 50, 1000)
#: milliseconds by percentile, on a quiet machine
_GOALS = {50: Goal(bound=100.0), 99: Goal(bound=250.0)}
_REALTIME_GOALS = {50: Goal(bound=10.0), 99: Goal(bound=250.0)}
_SCRIPT = (
    "{type: script, from: messages, primary_key: id, language: javascript, "
    "script: 'function process(row) { row.name = row.name.toUpperCase(); return row; }'}"
)


@dataclass(frozen=True)
class _Pipeline:
    name: str
    transform: str
    #: receives the rows
    arrivals: type[Arrivals]
    #: of the source
    latency: str = "standard"
    goals: Mapping[int, Goal] = field(default_factory=lambda: _GOALS)
    #: whether bare Structured Streaming does the same here; it has no counterpart of a latency
    has_twin: bool = True


_PIPELINES = (
    _Pipeline("Kafka → SQL → Kafka", SQL, KafkaArrivals),
    _Pipeline("Kafka → SQL → Kafka, realtime", SQL, KafkaArrivals, "realtime", _REALTIME_GOALS, has_twin=False),
    _Pipeline("Kafka → SQL → Postgres", SQL, PostgresArrivals),
    _Pipeline("Kafka → script → webhook", _SCRIPT, WebhookArrivals),
)

#: percentile → milliseconds, by rate
Measured = dict[int, dict[int, float]]


class Latency(Scenario):
    """Each pipeline is a process of its own, first with Streamling, then as a bare Structured Streaming query."""

    title = "latency"
    needs_services = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        twins = sum(pipeline.has_twin for pipeline in _PIPELINES) if has_pyspark else 0
        return (len(_PIPELINES) + twins) * (1 + len(_RATES))

    def figures(self) -> list[Figure]:
        return [figure for pipeline in _PIPELINES for figure in self._figures_of(pipeline)]

    def _figures_of(self, pipeline: _Pipeline) -> list[Figure]:
        ours = self._measure(pipeline, "ours")
        bare = self._measure(pipeline, "bare") if self._bench.has_pyspark and pipeline.has_twin else None
        return [
            Figure(
                self.title,
                f"{pipeline.name}, {rate}/s, p{percentile}",
                Unit.MILLISECONDS,
                [ours[rate][percentile]],
                [] if bare is None else [bare[rate][percentile]],
                compared_with="bare Structured Streaming",
                goal=pipeline.goals.get(percentile),
            )
            for rate in _RATES
            for percentile in PERCENTILES
        ]

    def _measure(self, pipeline: _Pipeline, side: str) -> Measured:
        bench = self._bench
        bench.step(f"latency: {pipeline.name}, {side}, start")
        env, place = bench.services_env, bench.place("latency")
        topic = bench.services.table().replace("changes", "latency")
        with pipeline.arrivals(bench.services, f"{topic}_out") as arrivals:
            load = Load(bench.services.brokers, topic, arrivals)
            if side == "ours":
                text = pipeline_text(topic, arrivals, pipeline.transform, pipeline.latency)
                (place / "pipeline.yaml").write_text(text, encoding="utf-8")
                command: Sequence[str] = [*STREAMLING, "run", "pipeline.yaml"]
            else:
                command = self._twin(topic, arrivals)
            with running(command, cwd=place, env=env) as process:
                load.start(process)
                return {rate: self._at_rate(pipeline.name, side, rate, load) for rate in _RATES}

    def _twin(self, topic: str, arrivals: Arrivals) -> Sequence[str]:
        jars = ",".join(map(str, spark_package_jars(self._bench.cache_dir, frozenset(CONNECTORS))))
        return twin("latency", jars, self._bench.services.brokers, topic, arrivals.kind, arrivals.address)

    def _at_rate(self, name: str, side: str, rate: int, load: Load) -> dict[int, float]:
        self._bench.step(f"latency: {name}, {side}, {rate}/s")
        return percentiles(load.run(rate, self._bench.sizes.latency_seconds))
