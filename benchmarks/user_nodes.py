"""A user's own transform and sink, compared with built-in ones that do the same work at the same place of a
pipeline."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import data
from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario

#: maximum: a sink that keeps them holds them in memory
_ROWS = 1_000_000
#: a run takes a second, and is often a fifth faster or slower than the next
_TIMES = 4
_GOAL = Goal(ratio=0.9)
PLUGINS = Path(__file__).parent / "user_plugin.py"

SQL = "{type: sql, primary_key: order_id, sql: 'SELECT *, amount * quantity AS total FROM orders'}"
PLUGIN = "{type: user.totals, from: orders}"
_PIPELINE = """
sources:
  orders: {{type: file, path: '{folder}', format: parquet, mode: {{type: bounded}}, primary_key: order_id}}
transforms:
  priced: {transform}
sinks:
  kept: {{type: {sink}, from: priced}}
"""


class UserNodes(Scenario):
    """All rows leave the JVM as Arrow in every case, because the sinks are written in Python; so this compares the
    node, not its placement."""

    title = "plugins"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + 2 * 2 * sizes.rounds_for(_TIMES)

    @property
    def _rows(self) -> int:
        return min(_ROWS, self._bench.sizes.rows)

    def figures(self) -> list[Figure]:
        self._bench.step("plugins: files to read")
        folder = data.prepare(self._bench.cache_dir, self._rows) / "parquet"
        with worker("ours", cwd=self._bench.place("plugins"), env=self._bench.env) as process:
            pipeline = partial(_PIPELINE.format, folder=folder)
            return [
                self._figure(
                    process,
                    "a plugin adds a column",
                    "the same in SQL",
                    pipeline(transform=PLUGIN, sink="memory"),
                    pipeline(transform=SQL, sink="memory"),
                ),
                self._figure(
                    process,
                    "a plugin takes the rows",
                    "memory sink",
                    pipeline(transform=SQL, sink="user.collected"),
                    pipeline(transform=SQL, sink="memory"),
                ),
            ]

    def _figure(self, process: Worker, name: str, compared_with: str, ours: str, other: str) -> Figure:
        def measured(what: str, text: str) -> float:
            self._bench.step(f"plugins: {what}")
            return self._rows / float(process.do(side="ours", job="with_plugins", text=text, path=str(PLUGINS))) / 1e6

        found = self._bench.alternate(
            _TIMES, ours=partial(measured, name, ours), other=partial(measured, compared_with, other)
        )
        return Figure(
            self.title,
            f"parquet, {name}",
            Unit.MILLION_ROWS,
            found["ours"],
            found["other"],
            compared_with=compared_with,
            goal=_GOAL,
        )
