"""The cost of a lookup in a dynamic table: a pipeline with it compared with the same one without."""

from __future__ import annotations

from functools import partial

from benchmarks import data
from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario

#: maximum; one file of eight is read before the measurement starts
_ROWS = 1_200_000
_ENTRIES = 100_000
_GOAL = Goal(ratio=0.5)


class DynamicTables(Scenario):
    """Files → SQL → blackhole; every row passes the check, so that both do the same other work."""

    title = "tables"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + 2 * len(data.FORMATS) * sizes.rounds

    @property
    def _rows(self) -> int:
        return min(_ROWS, self._bench.sizes.rows)

    def figures(self) -> list[Figure]:
        self._bench.step("tables: files to read")
        folder = data.prepare(self._bench.cache_dir, self._rows)
        with worker("ours", cwd=self._bench.place("tables"), env=self._bench.env) as process:
            return [self._figure(process, format, str(folder / format)) for format in data.FORMATS]

    def _figure(self, process: Worker, format: str, folder: str) -> Figure:
        name = f"{format} → SQL with dynamic_table_check → blackhole"

        def measured(what: str, **job: object) -> float:
            self._bench.step(f"tables: {format}, {what}")
            answer = process.do(
                side="ours", job="files_with_lookups", folder=folder, format=format, entries=_ENTRIES, **job
            )
            return (self._rows - -(-self._rows // data.FILES)) / float(answer) / 1e6

        found = self._bench.alternate(
            ours=partial(measured, "with the check", check=True),
            other=partial(measured, "without", check=False),
        )
        return Figure(
            self.title,
            name,
            Unit.MILLION_ROWS,
            found["ours"],
            found["other"],
            compared_with="without the check",
            goal=_GOAL,
        )
