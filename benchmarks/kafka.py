"""Kafka: Avro change records → SQL → blackhole, compared with the same plan by hand and with reading alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from benchmarks import records
from benchmarks.children import Worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario

#: with the header `dbz.op`, which becomes `_gs_op`, on two cores together with the broker
_RATE_GOAL = Goal(bound=550, ratio=0.95)
_RATIO_GOAL = Goal(ratio=0.95)
#: the cost of the Rust implementation
_CPU_GOAL = Goal(bound=3.9)
_JOBS = 3
#: jobs for which reading and discarding the messages is also measured
_READ_ALONE = 2

#: thousand records per second, and microseconds of CPU time per record
Rates = tuple[float, float]


class Kafka(Scenario):
    """Each job runs with Streamling, by hand in plain PySpark, and by hand on a JVM started by us."""

    title = "kafka"
    needs_services = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 2 + sizes.rounds * (_JOBS * (3 if has_pyspark else 2) + _READ_ALONE)

    def figures(self) -> list[Figure]:
        bench = self._bench
        bench.step("kafka: a topic with headers")
        changes = bench.topic(bench.sizes.records)
        bench.step("kafka: a topic without headers")
        bare = bench.topic(bench.sizes.records, headers=False)
        with ExitStack() as stack:
            ours = stack.enter_context(bench.kafka_worker("ours", "kafka"))
            sides = [("ours", ours, "ours"), ("same_jvm", ours, "by hand")]
            if bench.has_pyspark:
                plain = stack.enter_context(bench.kafka_worker("plain", "kafka-plain"))
                sides.append(("by_hand", plain, "by hand"))
            jobs = {
                "Avro → SQL": (partial(self._job, changes, True, "true"), partial(self._read, ours, changes)),
                "Avro → SQL, a tenth passes": (partial(self._job, changes, True, records.TENTH), None),
                "Avro without dbz.op → SQL": (partial(self._job, bare, False, "true"), partial(self._read, ours, bare)),
            }
            return [figure for name, (job, read) in jobs.items() for figure in self._measured(name, job, read, sides)]

    def _measured(
        self,
        name: str,
        job: Callable[[Worker, str], Rates],
        read: Callable[[], Rates] | None,
        sides: list[tuple[str, Worker, str]],
    ) -> list[Figure]:
        def measured(label: str, work: Callable[[], Rates]) -> Rates:
            self._bench.step(f"kafka: {name}, {label.replace('_', ' ')}")
            return work()

        works: dict[str, Callable[[], Rates]] = {
            label: partial(job, process, side) for label, process, side in sides
        } | ({"only_reading": read} if read else {})
        found = self._bench.alternate(**{label: partial(measured, label, work) for label, work in works.items()})
        return self._compared(name, found)

    def _compared(self, name: str, found: dict[str, list[Rates]]) -> list[Figure]:
        others = {"by_hand": "PySpark", "same_jvm": "PySpark on our JVM", "only_reading": "reading alone"}
        compared_with = [(label, text) for label, text in others.items() if label in found]
        figures = []
        for number, (label, text) in enumerate(compared_with):
            goal = None
            if number == 0:  # the first one is our goal
                goal = _RATIO_GOAL if "without" in name else _RATE_GOAL
            ours, other = ([rate for rate, _ in found[one]] for one in ("ours", label))
            figures.append(Figure(self.title, name, Unit.THOUSAND_ROWS, ours, other, compared_with=text, goal=goal))
        label, text = compared_with[0]
        ours, other = ([cpu for _, cpu in found[one]] for one in ("ours", label))
        if any(ours):
            figures.append(Figure(self.title, name, Unit.CPU_PER_ROW, ours, other, compared_with=text, goal=_CPU_GOAL))
        return figures

    def _job(self, topic: str, headers: bool, condition: str, process: Worker, side: str) -> Rates:
        count = self._bench.sizes.records
        answer = process.do(side=side, job="to_nowhere", topic=topic, count=count, headers=headers, condition=condition)
        return self._rates(answer)

    def _read(self, process: Worker, topic: str) -> Rates:
        count = self._bench.sizes.records
        return self._rates(process.do(side="by hand", job="read_only", topic=topic, count=count))

    def _rates(self, answer: dict[str, float]) -> Rates:
        count = self._bench.sizes.records
        return count / answer["seconds"] / 1e3, answer["cpu"] / count * 1e6
