"""What it costs to measure and to watch a pipeline: all metrics on, and a client on every stream of the admin API."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import data
from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario

_JOBS = {"parquet → SQL → blackhole": "files_to_nowhere", "parquet → SQL → Arrow": "files_to_arrow"}


class Telemetry(Scenario):
    """Each job runs with everything on and with everything off, in turn, in one process."""

    title = "telemetry"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + len(_JOBS) * sizes.rounds * 2

    def figures(self) -> list[Figure]:
        self._bench.step("telemetry: files to read")
        folder = data.prepare(self._bench.cache_dir, self._bench.sizes.rows) / "parquet"
        with worker("ours", cwd=self._bench.place("telemetry"), env=self._bench.env) as process:
            return [self._job(name, job, folder, process) for name, job in _JOBS.items()]

    def _job(self, name: str, job: str, folder: Path, process: Worker) -> Figure:
        measures = {
            label: partial(self._rate, f"{name}, {label}", job, folder, process, watched=label == "on")
            for label in ("on", "off")
        }
        found = self._bench.alternate(**measures)
        return Figure(
            self.title,
            name,
            Unit.MILLION_ROWS,
            found["on"],
            found["off"],
            compared_with="nothing measured",
            goal=Goal(ratio=0.97),
        )

    def _rate(self, step: str, job: str, folder: Path, process: Worker, *, watched: bool) -> float:
        """Million rows read per second."""
        self._bench.step(f"telemetry: {step}")
        answer = process.do(side="ours", job=job, folder=str(folder), format="parquet", watched=watched)
        return self._bench.sizes.rows / float(answer) / 1e6
