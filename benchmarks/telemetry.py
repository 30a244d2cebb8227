"""What it costs to watch a pipeline, and to export its metrics."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import data
from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.watching import EXPORTED, WATCHED
from benchmarks.workbench import Scenario

_JOBS = {"parquet → SQL → blackhole": "files_to_nowhere", "parquet → SQL → Arrow": "files_to_arrow"}
_MODES = {WATCHED: WATCHED, EXPORTED: EXPORTED, "neither": ""}


class Telemetry(Scenario):
    """Each job runs watched, with exported metrics, and with neither, in turn, in one process."""

    title = "telemetry"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + len(_JOBS) * sizes.rounds * 3

    def figures(self) -> list[Figure]:
        self._bench.step("telemetry: files to read")
        folder = data.prepare(self._bench.cache_dir, self._bench.sizes.rows) / "parquet"
        with worker("ours", cwd=self._bench.place("telemetry"), env=self._bench.env) as process:
            return [figure for name, job in _JOBS.items() for figure in self._job(name, job, folder, process)]

    def _job(self, name: str, job: str, folder: Path, process: Worker) -> list[Figure]:
        measures = {
            label: partial(self._rate, f"{name}, {label}", job, folder, process, observed=observed)
            for label, observed in _MODES.items()
        }
        found = self._bench.alternate(**measures)
        return [
            Figure(
                self.title,
                f"{name}, {label}",
                Unit.MILLION_ROWS,
                found[label],
                found["neither"],
                compared_with="nothing measured",
                goal=Goal(ratio=0.97) if label == WATCHED else None,
            )
            for label in (WATCHED, EXPORTED)
        ]

    def _rate(self, step: str, job: str, folder: Path, process: Worker, *, observed: str) -> float:
        """Million rows read per second."""
        self._bench.step(f"telemetry: {step}")
        answer = process.do(side="ours", job=job, folder=str(folder), format="parquet", observed=observed)
        return self._bench.sizes.rows / float(answer) / 1e6
