"""What it costs to watch a pipeline, and to export its metrics."""

from __future__ import annotations

from functools import partial

from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.watching import EXPORTED, WATCHED
from benchmarks.workbench import Scenario

#: by name: the job, and how many times as many batches it gets. A run has to take seconds, because those in which a
#: client connects do not count
_JOBS = {"rate → SQL → blackhole": ("rate_to_nowhere", 10), "rate → SQL → Arrow": ("rate_to_arrow", 1)}
_MODES = {WATCHED: WATCHED, EXPORTED: EXPORTED, "neither": ""}
#: batches at the start of a stream that do not count, times those above
_FIRST = 2


class Telemetry(Scenario):
    """Each job runs watched, with exported metrics, and with neither, in turn, in one process."""

    title = "telemetry"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return len(_JOBS) * sizes.rounds * len(_MODES)

    def figures(self) -> list[Figure]:
        with worker("ours", cwd=self._bench.place("telemetry"), env=self._bench.env) as process:
            return [figure for name in _JOBS for figure in self._job(name, process)]

    def _job(self, name: str, process: Worker) -> list[Figure]:
        measures = {
            label: partial(self._rate, name, label, process, observed=observed) for label, observed in _MODES.items()
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

    def _rate(self, name: str, label: str, process: Worker, *, observed: str) -> float:
        """Million rows per second, without the first batches."""
        self._bench.step(f"telemetry: {name}, {label}")
        job, times = _JOBS[name]
        rows, first = self._bench.sizes.rate_rows, _FIRST * times
        batches = self._bench.sizes.rate_batches * times + first
        moments = process.do(side="ours", job=job, rows=rows, batches=batches, observed=observed)[first:]
        return rows * (len(moments) - 1) / float(moments[-1] - moments[0]) / 1e6
