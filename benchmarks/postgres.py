"""Kafka → SQL → Postgres: upserts, compared with a loop that only writes rows from memory."""

from __future__ import annotations

from benchmarks.children import Worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario

#: thousand rows per second; reading beside writing may cost a fifth of the loop's rate
_GOAL = Goal(bound=140, ratio=0.8)


#: thousand rows per second into an empty table, and for the same rows again
Rates = tuple[float, float]


class Postgres(Scenario):
    """Every run writes a separate table twice: the second time all its rows exist."""

    title = "postgres"
    needs_services = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + 2 * (sizes.upsert_warm_ups + 2 * sizes.rounds)

    def figures(self) -> list[Figure]:
        bench = self._bench
        bench.step("postgres: a topic")
        topic = bench.topic(bench.sizes.upserts)
        with bench.kafka_worker("ours", "postgres") as process:
            for _ in range(
                bench.sizes.upsert_warm_ups
            ):  # the JVM is still cold after a million rows, and the loop has none
                self._rates(process, "ours", topic=topic)
            found = bench.alternate(
                ours=lambda: self._rates(process, "ours", topic=topic), loop=lambda: self._rates(process, "by hand")
            )
        names = {"Kafka → SQL → upserts": _GOAL, "Kafka → SQL → upserts of rows that exist": None}
        return [
            Figure(
                self.title,
                name,
                Unit.THOUSAND_ROWS,
                [rates[number] for rates in found["ours"]],
                [rates[number] for rates in found["loop"]],
                compared_with="bare COPY loop",
                goal=goal,
            )
            for number, (name, goal) in enumerate(names.items())
        ]

    def _rates(self, process: Worker, side: str, **job: str) -> Rates:
        table = self._bench.services.table()
        return self._upserts(process, side, table=table, **job), self._upserts(process, side, table=table, **job)

    def _upserts(self, process: Worker, side: str, **job: str) -> float:
        self._bench.step(f"postgres: upserts, {side}")
        count = self._bench.sizes.upserts
        answer = process.do(side=side, job="to_postgres", count=count, **job)
        return count / float(answer["seconds"]) / 1e3
