"""Trigger floor: the time from one small micro-batch to the next when the rows go to Python as Arrow."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from statistics import median

from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario

_ROWS = 1000
#: triggers at the start of a query that do not count
_FIRST = 10


class Trigger(Scenario):
    """One worker runs it with Streamling and by hand on the same Spark; another one by hand with PySpark's defaults."""

    title = "trigger"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return sizes.rounds * (3 if has_pyspark else 2)

    def figures(self) -> list[Figure]:
        place = self._bench.place("trigger")
        with ExitStack() as stack:
            ours = stack.enter_context(worker("ours", cwd=place, env=self._bench.env))
            measures = {
                "ours": lambda: self._trigger(ours, "ours", "ours"),
                "bare": lambda: self._trigger(ours, "by hand", "bare floor"),
            }
            if self._bench.has_pyspark:
                default = stack.enter_context(worker("default", cwd=place, env=self._bench.env))
                measures["default"] = lambda: self._trigger(default, "by hand", "by hand, Spark's defaults")
            found = self._bench.alternate(**measures)
        bare = Figure(
            self.title,
            f"{_ROWS} rows → Arrow",
            Unit.MILLISECONDS,
            found["ours"],
            found["bare"],
            compared_with="bare Spark",
            goal=Goal(bound=60.0, ratio=1.2, either=True),
        )
        if "default" not in found:
            return [bare]
        return [bare, Figure(self.title, f"{_ROWS} rows → Arrow", Unit.MILLISECONDS, found["ours"], found["default"])]

    def _trigger(self, worker: Worker, side: str, name: str) -> float:
        """Return the milliseconds from one batch to the next."""
        self._bench.step(f"trigger floor: {name}")
        triggers = self._bench.sizes.triggers + _FIRST
        moments: list[float] = worker.do(side=side, job="trigger_to_arrow", rows=_ROWS, triggers=triggers)
        return median(later - earlier for earlier, later in pairwise(moments[_FIRST:])) * 1000
