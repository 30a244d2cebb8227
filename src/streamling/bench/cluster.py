"""The same files on a cluster of one and of two executors: does throughput grow with workers?"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from streamling.bench import data
from streamling.bench.children import Worker, worker
from streamling.bench.figures import Figure, Goal, Unit
from streamling.bench.sizes import Sizes
from streamling.bench.workbench import Scenario

#: executors of one core each, by what the figures call them
_EXECUTORS = {"one": 1, "two": 2}
_JOBS = {"csv → SQL → blackhole": "files_to_nowhere", "csv → script → blackhole": "files_through_script"}
#: rows of the script are few beside those of SQL: it is slower than a plan
_SHARE = {"files_to_nowhere": 1, "files_through_script": 10}
#: driver and executors share this machine, and reading the files is part of it
_GOAL = Goal(ratio=1.3)


class Cluster(Scenario):
    """Executors are processes of this machine; the driver only plans."""

    title = "cluster"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + len(_JOBS) * len(_EXECUTORS) * sizes.rounds

    def figures(self) -> list[Figure]:
        self._bench.step("cluster: files to read")
        with ExitStack() as stack:
            sides = {name: stack.enter_context(self._driver(name, count)) for name, count in _EXECUTORS.items()}
            return [self._figure(name, job, sides) for name, job in _JOBS.items()]

    def _driver(self, name: str, executors: int) -> AbstractContextManager[Worker]:
        env = {**self._bench.env, "STREAMLING__SPARK__MASTER": f"local-cluster[{executors},1,1024]"}
        return worker("ours", cwd=self._bench.place(f"cluster-{name}"), env=env)

    def _figure(self, name: str, job: str, sides: dict[str, Worker]) -> Figure:
        count = max(1, self._bench.sizes.rows // _SHARE[job])
        folder = data.prepare(self._bench.cache_dir, count) / "csv"
        found = self._bench.alternate(
            **{
                label: partial(self._rate, f"{name}, {label}", job, folder, count, side)
                for label, side in sides.items()
            }
        )
        return Figure(
            self.title, f"{name}, two executors", Unit.MILLION_ROWS, found["two"], found["one"], "one executor", _GOAL
        )

    def _rate(self, doing: str, job: str, folder: Path, rows: int, process: Worker) -> float:
        """Million rows read per second."""
        self._bench.step(f"cluster: {doing}")
        return rows / float(process.do(side="ours", job=job, folder=str(folder), format="csv")) / 1e6
