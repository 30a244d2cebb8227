"""Latency: from the moment a message is produced to the moment its row arrives behind the sink."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.arrivals import Arrivals, KafkaArrivals, PostgresArrivals, WebhookArrivals
from benchmarks.children import STREAMLING, RunningProcess, running, twin
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.services import CONNECTORS
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario
from streamling.spark.jvm.jars import spark_package_jars

#: messages per second
_RATES = (1, 50, 1000)
_PERCENTILES = (50, 95, 99)
#: milliseconds by percentile, on a quiet machine
_GOALS = {50: Goal(bound=100.0), 99: Goal(bound=250.0)}
_REALTIME_GOALS = {50: Goal(bound=10.0), 99: Goal(bound=250.0)}
#: messages per second, and seconds, before the first rate is measured
_WARM_UP = (50, 5.0)
#: maximum seconds until the first row arrives, and until the last ones do
_START_SECONDS, _END_SECONDS = 120.0, 30.0

_SQL = "{type: sql, primary_key: id, sql: 'SELECT id, sent, upper(name) AS name FROM messages WHERE id >= 0'}"
_SCRIPT = (
    "{type: script, from: messages, primary_key: id, language: javascript, "
    "script: 'function process(row) { row.name = row.name.toUpperCase(); return row; }'}"
)
_PIPELINE = """
sources:
  messages:
    type: kafka
    topic: {topic}
    data_format: json
    primary_key: id
    latency: {latency}
    schema: {{id: int64, sent: float64, name: string}}
transforms:
  shaped: {transform}
sinks:
  out: {{from: shaped, {sink}}}
"""


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
    _Pipeline("Kafka → SQL → Kafka", _SQL, KafkaArrivals),
    _Pipeline("Kafka → SQL → Kafka, realtime", _SQL, KafkaArrivals, "realtime", _REALTIME_GOALS, has_twin=False),
    _Pipeline("Kafka → SQL → Postgres", _SQL, PostgresArrivals),
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
            for percentile in _PERCENTILES
        ]

    def _measure(self, pipeline: _Pipeline, side: str) -> Measured:
        bench = self._bench
        bench.step(f"latency: {pipeline.name}, {side}, start")
        env, place = bench.services_env, bench.place("latency")
        topic = bench.services.table().replace("changes", "latency")
        with pipeline.arrivals(bench.services, f"{topic}_out") as arrivals:
            load = _Load(bench.services.brokers, topic, arrivals)
            if side == "ours":
                text = _PIPELINE.format(
                    topic=topic, latency=pipeline.latency, transform=pipeline.transform, sink=arrivals.sink
                )
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

    def _at_rate(self, name: str, side: str, rate: int, load: _Load) -> dict[int, float]:
        self._bench.step(f"latency: {name}, {side}, {rate}/s")
        found = sorted(load.run(rate, self._bench.sizes.latency_seconds))
        return {
            percentile: found[min(len(found) - 1, len(found) * percentile // 100)] * 1000 for percentile in _PERCENTILES
        }


class _Load:
    """Produces messages at a rate and waits for their rows."""

    def __init__(self, brokers: str, topic: str, arrivals: Arrivals) -> None:
        from confluent_kafka import Producer

        from streamling.dev.services.topics import create_topic

        create_topic(brokers, topic)
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})
        self._topic = topic
        self._arrivals = arrivals
        self._sent = 0

    def start(self, process: RunningProcess) -> None:
        """Wait for the first row, then warm up."""
        self._send()
        self._wait_until(lambda: self._arrivals.count >= 1, _START_SECONDS, process.check)
        self.run(*_WARM_UP)

    def run(self, rate: int, seconds: float) -> list[float]:
        """Return the seconds from the production of each message to the arrival of its row."""
        self._arrivals.clear()
        began, count = time.monotonic(), max(1, int(rate * seconds))
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            self._send()
        self._wait_until(lambda: self._arrivals.count >= count, _END_SECONDS)
        return self._arrivals.latencies()

    def _send(self) -> None:
        message = {"id": self._sent, "sent": time.time(), "name": f"name {self._sent}"}
        self._producer.produce(self._topic, json.dumps(message), key=str(self._sent))
        self._producer.poll(0)
        self._sent += 1

    def _wait_until(
        self, condition: Callable[[], bool], seconds: float, check: Callable[[], None] = lambda: None
    ) -> None:
        self._producer.flush()
        deadline = time.monotonic() + seconds
        while not condition():
            check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {self._arrivals.count} rows have arrived after {seconds:g} s")
            time.sleep(0.01)
