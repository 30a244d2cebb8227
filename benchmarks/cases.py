"""`streamling test`: a project with many cases, from the start of the command to its end."""

from __future__ import annotations

import shutil
from copy import deepcopy
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import yaml

from benchmarks.children import STREAMLING, FinishedProcess, measure
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario
from streamling.dev.pipeline_tests.load import find_files

_EXAMPLES = Path(__file__).parents[1] / "examples"


class Cases(Scenario):
    """The examples with their tests; each case is there as often as it takes."""

    title = "test"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return sizes.rounds

    def figures(self) -> list[Figure]:
        seconds = [run.ended for run in self._bench.alternate(run=self._run)["run"]]
        name = f"{self._bench.sizes.cases} cases of pipelines"
        # the goal is one for 200 cases
        goal = Goal(bound=30) if self._bench.sizes.cases == 200 else None
        return [Figure(self.title, name, Unit.SECONDS, seconds, goal=goal)]

    def _run(self) -> FinishedProcess:
        cases = self._bench.sizes.cases
        self._bench.step(f"test: {cases} cases")
        place = self._bench.place("test")
        write_project(place, cases)
        run = measure([*STREAMLING, "test"], cwd=place, env=self._bench.env)
        assert run.output.endswith(f"{cases} passed\n"), run.output[-1000:]
        return run


def write_project(folder: Path, cases: int) -> None:
    """Copy the examples to ``folder``, with ``cases`` cases in their test files."""
    shutil.copytree(_EXAMPLES, folder, dirs_exist_ok=True)
    # nodes instead of values: numbers, times and quotes stay as they are written
    files = {path: yaml.compose(path.read_bytes(), Loader=yaml.BaseLoader) for path in find_files([folder])}
    found = [(path, *case) for path, document in files.items() for case in _cases(document)]
    for document in files.values():
        _cases(document).clear()
    for number, (path, name, case) in enumerate(islice(cycle(found), cases)):
        key = yaml.ScalarNode(name.tag, f"{name.value}, {number // len(found) + 1}")
        _cases(files[path]).append((key, deepcopy(case)))
    for path, document in files.items():
        path.write_text(yaml.serialize(document, Dumper=yaml.BaseDumper), encoding="utf-8")


def _cases(document: Any) -> Any:
    """Return the pairs of name and case in a test file."""
    return next(value.value for key, value in document.value if key.value == "cases")
