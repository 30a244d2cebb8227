"""What it costs to watch a pipeline, and to export its metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.watching import EXPORTED, WATCHED
from benchmarks.workbench import Scenario

#: of a synthetic stream: the job, and how many times as many batches it gets. A run has to take seconds, because those
#: in which a client connects do not count
_STREAMS = {"rate → SQL → blackhole": ("rate_to_nowhere", 10), "rate → SQL → Arrow": ("rate_to_arrow", 1)}
_KAFKA = "Kafka → SQL → Arrow"
#: how many times as many rounds the topic gets: its runs vary by a tenth
_TIMES = 2
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
        return 1 + (sizes.rounds_for(_TIMES) + len(_STREAMS) * sizes.rounds) * len(_MODES)

    def figures(self) -> list[Figure]:
        self._bench.step("telemetry: a topic")
        topic = self._bench.topic(self._bench.sizes.records)
        with self._bench.kafka_worker("ours", "telemetry-kafka") as process:
            rate = partial(self._messages, process, topic)
            found = self._compared(_KAFKA, Unit.THOUSAND_ROWS, rate, goals=_MODES, times=_TIMES)
        with worker("ours", cwd=self._bench.place("telemetry"), env=self._bench.env) as process:
            for name, (job, times) in _STREAMS.items():
                rate = partial(self._rate, process, job, times)
                # a counter takes 5 ms per batch, which is more than 3 % of the 140 ms of the first stream
                found += self._compared(name, Unit.MILLION_ROWS, rate, goals=[WATCHED])
            return found

    def _compared(
        self, name: str, unit: Unit, rate: Callable[[str], float], *, goals: Collection[str], times: int = 1
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
            )
            for label in (WATCHED, EXPORTED)
        ]

    def _messages(self, process: Worker, topic: str, observed: str) -> float:
        """Thousand messages per second."""
        count = self._bench.sizes.records
        answer = process.do(side="ours", job="to_arrow", topic=topic, count=count, observed=observed)
        return float(count / answer["seconds"] / 1e3)

    def _rate(self, process: Worker, job: str, times: int, observed: str) -> float:
        """Million rows per second, without the first batches."""
        rows, first = self._bench.sizes.rate_rows, _FIRST * times
        batches = self._bench.sizes.rate_batches * times + first
        moments = process.do(side="ours", job=job, rows=rows, batches=batches, observed=observed)[first:]
        return rows * (len(moments) - 1) / float(moments[-1] - moments[0]) / 1e6
