"""The same files on a cluster of one and of two executors: does throughput scale with workers?

Each executor and its Python workers have one CPU core. Without that limit, one executor with one task already uses two:
its JVM processes rows while its Python worker computes the next ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks import data
from benchmarks.children import Worker, worker
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.usage import family
from benchmarks.workbench import Scenario
from streamling.errors import StreamlingError

#: executors of one core each, by their label
_EXECUTORS = {"one": 1, "two": 2}
_JOBS = {"csv → SQL → blackhole": "files_to_nowhere", "csv → script → blackhole": "files_through_script"}
#: fewer rows for the script than for SQL, because it is slower
_SHARE = {"files_to_nowhere": 1, "files_through_script": 10}
#: driver and executors share this machine, and reading the files is included
_GOAL = Goal(ratio=1.3)
_EXECUTOR = "CoarseGrainedExecutorBackend"
_START_SECONDS = 60.0


class Cluster(Scenario):
    """Executors are processes on this machine; the driver only plans."""

    title = "cluster"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + len(_JOBS) * len(_EXECUTORS) * sizes.rounds

    def figures(self) -> list[Figure]:
        self._bench.step("cluster: files to read")
        with ExitStack() as stack:
            sides = {name: stack.enter_context(self._driver(name, count)) for name, count in _EXECUTORS.items()}
            return [self._figure(name, job, sides) for name, job in _JOBS.items()]

    @contextmanager
    def _driver(self, name: str, executors: int) -> Iterator[Worker]:
        env = {**self._bench.env, "STREAMLING__SPARK__MASTER": f"local-cluster[{executors},1,1024]"}
        with worker("ours", cwd=self._bench.place(f"cluster-{name}"), env=env) as driver:
            _give_each_a_core(driver, executors)
            yield driver

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
        """Return million rows read per second."""
        self._bench.step(f"cluster: {doing}")
        return rows / float(process.do(side="ours", job=job, folder=str(folder), format="csv")) / 1e6


def _give_each_a_core(driver: Worker, executors: int) -> None:
    """Processes that an executor starts later inherit its core."""
    deadline = time.monotonic() + _START_SECONDS
    while len(found := [pid for pid in sorted(family(driver.pid)) if _is_executor(pid)]) < executors:
        driver.check()
        if time.monotonic() > deadline:
            raise StreamlingError(f"{executors} executors did not start within {_START_SECONDS:g} s")
        time.sleep(0.1)
    cores = sorted(os.sched_getaffinity(0))
    for number, pid in enumerate(found):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores[number % len(cores)]})


def _is_executor(pid: int) -> bool:
    try:
        return _EXECUTOR.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # it has ended in the meantime
