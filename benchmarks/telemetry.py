"""What it costs to watch a pipeline, and to export its metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.watching import EXPORTED, WATCHED
from benchmarks.workbench import Scenario

#: of a synthetic stream: the job, and how many times as many batches it gets. A run takes seconds, because those in
#: which a client connects do not count; longer ones would be disturbed by changes of the machine
_STREAMS = {"rate → SQL → blackhole": ("rate_to_nowhere", 4.0), "rate → SQL → Arrow": ("rate_to_arrow", 0.5)}
_KAFKA = "Kafka → SQL → Arrow"
#: how many times as many rounds the streams and the topic get, and how many of the topic do not count: counters are
#: part of the generated code, and it takes Java a minute to compile both forms of it
_STREAM_TIMES, _TOPIC_TIMES, _WARM_UP_TIMES = 3, 8, 2
_MODES = {WATCHED: WATCHED, EXPORTED: EXPORTED, "neither": ""}
#: batches at the start of a stream that do not count, times those above
_FIRST = 2
_GOAL = Goal(ratio=0.97)


class Telemetry(Scenario):
    """Each job runs watched, with exported metrics, and with neither, in turn, in one process."""

    title = "telemetry"
    needs_services = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        topic = sizes.rounds_for(_WARM_UP_TIMES) + sizes.rounds_for(_TOPIC_TIMES)
        return 1 + (topic + len(_STREAMS) * sizes.rounds_for(_STREAM_TIMES)) * len(_MODES)

    def figures(self) -> list[Figure]:
        self._bench.step("telemetry: a topic")
        count = self._bench.sizes.records // 4
        topic = self._bench.topic(count)
        with self._bench.kafka_worker("ours", "telemetry-kafka") as process:
            rate = partial(self._messages, process, topic, count)
            self._compared(_KAFKA, Unit.THOUSAND_ROWS, rate, _WARM_UP_TIMES)
            found = self._compared(_KAFKA, Unit.THOUSAND_ROWS, rate, _TOPIC_TIMES, goals=_MODES)
        with worker("ours", cwd=self._bench.place("telemetry"), env=self._bench.env) as process:
            for name, (job, times) in _STREAMS.items():
                rate = partial(self._rate, process, job, times)
                # a counter takes a few nanoseconds per row, of the 50 that a row takes in the first stream
                found += self._compared(name, Unit.MILLION_ROWS, rate, _STREAM_TIMES, goals=[WATCHED])
            return found

    def _compared(
        self, name: str, unit: Unit, rate: Callable[[str], float], times: int, goals: Collection[str] = ()
    ) -> list[Figure]:
        def measure(label: str, observed: str) -> float:
            self._bench.step(f"telemetry: {name}, {label}")
            return rate(observed)

        found = self._bench.alternate(times, **{label: partial(measure, label, mode) for label, mode in _MODES.items()})
        return [
            Figure(
                self.title,
                f"{name}, {label}",
                unit,
                found[label],
                found["neither"],
                compared_with="nothing measured",
                goal=_GOAL if label in goals else None,
                by_round=True,
            )
            for label in (WATCHED, EXPORTED)
        ]

    def _messages(self, process: Worker, topic: str, count: int, observed: str) -> float:
        """Return thousand messages per second, without the first batch if there are several."""
        moments = process.do(side="ours", job="to_arrow", topic=topic, count=count, observed=observed)
        (began, first), (ended, last) = moments[1 if len(moments) > 2 else 0], moments[-1]
        return float((last - first) / (ended - began) / 1e3)

    def _rate(self, process: Worker, job: str, times: float, observed: str) -> float:
        """Return million rows per second, without the first batches."""
        rows, first = self._bench.sizes.rate_rows, max(1, round(_FIRST * times))
        batches = max(2, round(self._bench.sizes.rate_batches * times)) + first
        moments = process.do(side="ours", job=job, rows=rows, batches=batches, observed=observed)[first:]
        return rows * (len(moments) - 1) / float(moments[-1] - moments[0]) / 1e6
