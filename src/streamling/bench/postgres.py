"""Kafka → SQL → Postgres: upserts, beside a loop that has the rows in memory and only writes."""

from __future__ import annotations

from streamling.bench.children import Worker
from streamling.bench.figures import Figure, Goal, Unit
from streamling.bench.sizes import Sizes
from streamling.bench.workbench import Scenario

#: thousand rows per second; and reading next to writing may take a fifth of the loop's rate
_GOAL = Goal(bound=140, ratio=0.8)


class Postgres(Scenario):
    """Every run writes a table of its own."""

    title = "postgres"
    needs_services = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + sizes.rounds * 2

    def figures(self) -> list[Figure]:
        bench = self._bench
        bench.step("postgres: a topic")
        topic = bench.topic(bench.sizes.upserts)
        with bench.kafka_worker("ours", "postgres") as process:
            found = bench.alternate(
                ours=lambda: self._upserts(process, "ours", topic=topic), loop=lambda: self._upserts(process, "by hand")
            )
        return [
            Figure(
                self.title,
                "Kafka → SQL → upserts",
                Unit.THOUSAND_ROWS,
                found["ours"],
                found["loop"],
                beside="bare COPY loop",
                goal=_GOAL,
            )
        ]

    def _upserts(self, process: Worker, side: str, **job: str) -> float:
        self._bench.step(f"postgres: upserts, {side}")
        count = self._bench.sizes.upserts
        answer = process.do(side=side, job="to_postgres", count=count, table=self._bench.services.table(), **job)
        return count / float(answer["seconds"]) / 1e3
