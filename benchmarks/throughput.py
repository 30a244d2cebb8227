"""Throughput of SQL pipelines on a warm JVM, compared with the same plan written by hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import data
from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario

_JOBS = 4
#: batches at the start of a stream that do not count
_FIRST = 2
_GOAL = Goal(ratio=0.95)
#: the label of a worker, the worker, and whose jobs it runs
_Side = tuple[str, Worker, str]
_WIDE = "parquet → 61 columns → blackhole"


class Throughput(Scenario):
    """Each job runs with Streamling, by hand in plain PySpark, and by hand on a JVM started by us."""

    title = "throughput"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + sizes.rounds * (_JOBS * 3 + 2 if has_pyspark else _JOBS * 2)

    def figures(self) -> list[Figure]:
        self._bench.step("throughput: files to read")
        folder = data.prepare(self._bench.cache_dir, self._bench.sizes.rows)
        with ExitStack() as stack:
            # One JVM each: compiled code depends on what ran before, and all must have run the same.
            kinds = [("ours", "ours", "ours"), ("same_jvm", "ours", "by hand"), ("by_hand", "plain", "by hand")]
            sides = self._sides(stack, [each for each in kinds if each[1] == "ours" or self._bench.has_pyspark])
            figures = []
            for format in data.FORMATS:
                job = partial(self._files, "files_to_nowhere", folder / format, format)
                figures += self._job(f"{format} → SQL → blackhole", job, sides)
            figures += self._job("rate → SQL → blackhole", self._rate, sides)
            job = partial(self._files, "files_to_arrow", folder / "parquet", "parquet")
            figures += self._job("parquet → SQL → Arrow", job, sides, judged=False)
        return [*figures, *self._wide(folder / "parquet")]

    def _wide(self, folder: Path) -> list[Figure]:
        """SQL with many expressions; by hand with Spark's default settings."""
        if not self._bench.has_pyspark:
            return []
        kinds = [("ours", "ours", "ours"), ("by_hand", "default", "by hand")]
        job = partial(self._files, "files_to_many_columns", folder, "parquet")
        with ExitStack() as stack:
            found = self._rates(_WIDE, job, self._sides(stack, kinds, "wide-"))
        return [
            Figure(
                self.title,
                _WIDE,
                Unit.MILLION_ROWS,
                found["ours"],
                found["by_hand"],
                compared_with="PySpark with its defaults",
                goal=_GOAL,
            )
        ]

    def _sides(self, stack: ExitStack, kinds: list[tuple[str, str, str]], folder: str = "") -> list[_Side]:
        """Return a worker for each label, kind of start and side."""
        return [
            (label, stack.enter_context(worker(kind, cwd=self._bench.place(folder + label), env=self._bench.env)), side)
            for label, kind, side in kinds
        ]

    def _rates(self, name: str, job: Callable[[Worker, str], float], sides: list[_Side]) -> dict[str, list[float]]:
        def measured(label: str, process: Worker, side: str) -> float:
            self._bench.step(f"throughput: {name}, {label.replace('_', ' ')}")
            return job(process, side)

        return self._bench.alternate(
            **{label: partial(measured, label, process, side) for label, process, side in sides}
        )

    def _job(
        self,
        name: str,
        job: Callable[[Worker, str], float],
        sides: list[_Side],
        *,
        judged: bool = True,
    ) -> list[Figure]:
        """Return two figures: compared with PySpark's own start, and with the same plan on our JVM."""
        found = self._rates(name, job, sides)
        by_hand = found.get("by_hand", [])
        return [
            Figure(
                self.title, name, Unit.MILLION_ROWS, found["ours"], by_hand, goal=_GOAL if judged and by_hand else None
            ),
            Figure(
                self.title,
                name,
                Unit.MILLION_ROWS,
                found["ours"],
                found["same_jvm"],
                compared_with="PySpark on our JVM",
                goal=_GOAL if judged and not by_hand else None,
            ),
        ]

    def _files(self, job: str, folder: Path, format: str, process: Worker, side: str) -> float:
        """Return million rows read per second."""
        answer = process.do(side=side, job=job, folder=str(folder), format=format)
        return self._bench.sizes.rows / float(answer) / 1e6

    def _rate(self, process: Worker, side: str) -> float:
        sizes = self._bench.sizes
        answer = process.do(side=side, job="rate_to_nowhere", rows=sizes.rate_rows, batches=sizes.rate_batches + _FIRST)
        moments = answer[_FIRST:]
        return sizes.rate_rows * (len(moments) - 1) / float(moments[-1] - moments[0]) / 1e6
