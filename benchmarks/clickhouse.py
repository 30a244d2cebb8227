"""ClickHouse: tables read and written, compared with clickhouse-connect and with a loop of inserts."""

from __future__ import annotations

from benchmarks.children import Worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.memory import sampled, smooth
from benchmarks.sizes import Sizes
from benchmarks.usage import available
from benchmarks.workbench import Scenario

_READ_GOAL = Goal(ratio=0.8)
_WRITE_GOAL = Goal(ratio=0.9)
#: memory depends on the size of a page, not on that of the table. A small table does not fill all the pages that may be
#: held, so a large one is compared with half of it
_MEMORY_GOAL = Goal(ratio=1.25)
_QUERY = "SELECT * FROM {table}"

#: thousand rows per second, and microseconds of CPU time per row
Rates = tuple[float, float]


class ClickHouse(Scenario):
    """Each side has its own worker: after a large result, Python's memory is not what it was before."""

    title = "clickhouse"
    needs_services = True
    needs_clickhouse_connect = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 2 + sizes.rounds * 6 + (4 if available() else 0)

    def figures(self) -> list[Figure]:
        bench = self._bench
        with (
            bench.kafka_worker("ours", "clickhouse") as process,
            bench.kafka_worker("ours", "clickhouse-by-hand") as by_hand,
        ):
            return [
                *self._reading(process, by_hand),
                *self._writing(process, by_hand),
                *self._from_kafka(process),
                *(self._memory(process) if available() else []),
            ]

    # ── rates ───────────────────────────────────────────────────────────────────────────────────────────────

    def _reading(self, process: Worker, by_hand: Worker) -> list[Figure]:
        table = self._filled(process, self._bench.sizes.table_rows)
        query = _QUERY.format(table=table)
        found = self._bench.alternate(
            ours=lambda: self._read(process, "tables", table=table),
            in_order=lambda: self._read(by_hand, "tables by hand", query=f"{query} ORDER BY id"),
            any_order=lambda: self._read(by_hand, "tables by hand", query=query),
        )
        name, others = "table → blackhole", {"in_order": _READ_GOAL, "any_order": None}
        figures = [
            Figure(
                self.title,
                name,
                Unit.THOUSAND_ROWS,
                [rate for rate, _ in found["ours"]],
                [rate for rate, _ in found[label]],
                compared_with=f"clickhouse-connect, {label.replace('_', ' ')}",
                goal=goal,
            )
            for label, goal in others.items()
        ]
        ours, other = ([cpu for _, cpu in found[label]] for label in ("ours", "in_order"))
        if any(ours):
            compared_with = figures[0].compared_with
            figures.append(Figure(self.title, name, Unit.CPU_PER_ROW, ours, other, compared_with=compared_with))
        return figures

    def _read(self, process: Worker, side: str, **job: str) -> Rates:
        self._bench.step(f"clickhouse: reading, {side}")
        return _rates(process.do(side=side, job="read", **job), self._bench.sizes.table_rows)

    def _writing(self, process: Worker, by_hand: Worker) -> list[Figure]:
        found = self._bench.alternate(
            ours=lambda: self._insert(process, "tables"), loop=lambda: self._insert(by_hand, "tables by hand")
        )
        ours, loop = ([rate for rate, _ in found[label]] for label in ("ours", "loop"))
        return [
            Figure(
                self.title,
                "memory → table",
                Unit.THOUSAND_ROWS,
                ours,
                loop,
                compared_with="bare Arrow insert loop",
                goal=_WRITE_GOAL,
            )
        ]

    def _insert(self, process: Worker, side: str) -> Rates:
        self._bench.step(f"clickhouse: writing, {side}")
        count, table = self._bench.sizes.upserts, self._bench.services.table()
        answer = process.do(side=side, job="insert", table=table, count=count)
        return self._checked(process, table, answer, count)

    def _from_kafka(self, process: Worker) -> list[Figure]:
        self._bench.step("clickhouse: a topic")
        topic = self._bench.topic(self._bench.sizes.records)
        found = self._bench.alternate(ours=lambda: self._consume(process, topic))["ours"]
        name = "Kafka → SQL → table"
        figures = [Figure(self.title, name, Unit.THOUSAND_ROWS, [rate for rate, _ in found])]
        if any(cpu for _, cpu in found):
            figures.append(Figure(self.title, name, Unit.CPU_PER_ROW, [cpu for _, cpu in found]))
        return figures

    def _consume(self, process: Worker, topic: str) -> Rates:
        self._bench.step("clickhouse: Kafka → SQL → table")
        count, table = self._bench.sizes.records, self._bench.services.table()
        answer = process.do(side="ours", job="to_clickhouse", topic=topic, count=count, table=table)
        return self._checked(process, table, answer, count)

    def _checked(self, process: Worker, table: str, answer: dict[str, float], count: int) -> Rates:
        """A rate counts only if all rows are there."""
        found = process.do(side="tables by hand", job="count", table=table)
        assert found == count, f"{table} has {found} rows instead of {count}"
        process.do(side="tables by hand", job="drop", table=table)
        return _rates(answer, count)

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────

    def _memory(self, process: Worker) -> list[Figure]:
        rows = self._bench.sizes.large_table_rows
        tables = [self._filled(process, count) for count in (rows, rows // 2)]
        (large, large_python), (small, small_python) = (self._peaks(table) for table in tables)
        name, compared_with = f"reading {rows / 1e6:g} M rows", "half of the rows"
        return [
            Figure(
                self.title,
                f"{name}, Python",
                Unit.MEGABYTES,
                [large_python],
                [small_python],
                compared_with=compared_with,
                goal=_MEMORY_GOAL,
            ),
            Figure(self.title, f"{name}, JVM + Python", Unit.MEGABYTES, [large], [small], compared_with=compared_with),
        ]

    def _peaks(self, table: str) -> tuple[float, float]:
        """Return the most that all processes and Python alone use, in a separate worker."""
        self._bench.step("clickhouse: memory")
        with self._bench.kafka_worker("ours", "clickhouse-memory") as process:
            used = sampled(process, lambda: process.do(side="tables", job="read", table=table))
        return max(smooth([one.memory_mb for one in used])), max(smooth([one.own_mb for one in used]))

    def _filled(self, process: Worker, count: int) -> str:
        self._bench.step("clickhouse: a table")
        table = self._bench.services.table()
        process.do(side="tables by hand", job="fill", table=table, count=count)
        return table


def _rates(answer: dict[str, float], count: int) -> Rates:
    return count / answer["seconds"] / 1e3, answer["cpu"] / count * 1e6
