"""`--validate`: time to the result."""

from __future__ import annotations

from statistics import median

from benchmarks.children import STREAMLING, FinishedProcess, measure
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario

_MISTAKE = ("upper(item)", "upper(itme)")


class Validate(Scenario):
    """An invalid file, a valid one and, for comparison, a start: validation may take a second longer than the first
    row."""

    title = "validate"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return sizes.rounds * 3

    def figures(self) -> list[Figure]:
        ran = self._bench.alternate(wrong=self._wrong, right=self._right, start=self._start)
        start = [one.first_line for one in ran["start"]]
        wrong, right = ([one.ended for one in ran[name]] for name in ("wrong", "right"))
        return [
            Figure(self.title, "file with a mistake", Unit.SECONDS, wrong, goal=Goal(bound=0.5)),
            Figure(
                self.title,
                "correct file",
                Unit.SECONDS,
                right,
                start,
                compared_with="our first row",
                goal=Goal(bound=median(start) + 1),
            ),
        ]

    def _wrong(self) -> FinishedProcess:
        self._bench.step("validate: file with a mistake")
        return self._run("--validate", _MISTAKE, code=1)

    def _right(self) -> FinishedProcess:
        self._bench.step("validate: correct file")
        return self._run("--validate")

    def _start(self) -> FinishedProcess:
        self._bench.step("validate: start to compare with")
        return self._run("--timings")

    def _run(self, option: str, *changes: tuple[str, str], code: int = 0) -> FinishedProcess:
        place = self._bench.place("validate")
        file = self._bench.quickstart(place, *changes)
        return measure([*STREAMLING, "run", file, option], cwd=place, env=self._bench.env, codes=(code,))
