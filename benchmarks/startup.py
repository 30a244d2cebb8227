"""Start-up: from the start of the process to the first row of the quickstart on standard output."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchmarks.children import STREAMLING, FinishedProcess, measure, twin
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.workbench import Scenario
from streamling.spark.jvm.archive import Archive
from streamling.spark.jvm.timings import TimedPhase

PHASES = "a start of the quickstart"
_PHASE = re.compile(r"^ *(\d+) ms +(?:(\d+) ms +)?(\S.*)$", re.MULTILINE)


class StartUp(Scenario):
    """The quickstart as a user runs it: with the archive, without it, and written by hand."""

    title = "start-up"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return sizes.rounds * (3 if has_pyspark else 2)

    def figures(self) -> list[Figure]:
        measures = {"ours": self._ours, "by_hand": self._by_hand, "unprepared": self._unprepared}
        if not self._bench.has_pyspark:
            del measures["by_hand"]
        ran = self._bench.alternate(**measures)
        ours, unprepared, by_hand = ran["ours"], ran["unprepared"], ran.get("by_hand", [])
        self._bench.phases[PHASES] = phases_of(sorted(ours, key=lambda one: one.first_line)[len(ours) // 2].errors)
        first = [one.first_line for one in by_hand]
        return [
            self._figure("first row", [one.first_line for one in ours], first, Goal(bound=5.0, ratio=0.5)),
            self._figure("first row, no archive yet", [one.first_line for one in unprepared], first, Goal(ratio=1.0)),
            self._figure("whole run", [one.ended for one in ours], [one.ended for one in by_hand], None),
        ]

    def _ours(self) -> FinishedProcess:
        self._bench.step("start-up: quickstart")
        return self._run("start", self._bench.env)

    def _unprepared(self) -> FinishedProcess:
        self._bench.step("start-up: quickstart without archive")
        cache = self._bench.folder / "empty-cache"
        # otherwise the first of these runs would build one during the next measurement
        Archive.for_settings(cache_dir=cache).record_failure("measuring starts without it")
        return self._run("start", {**self._bench.env, "STREAMLING__CACHE_DIR": str(cache)})

    def _run(self, name: str, env: Mapping[str, str]) -> FinishedProcess:
        place = self._bench.place(name)
        file = self._bench.quickstart(place)
        return measure([*STREAMLING, "run", file, "--timings"], cwd=place, env=env)

    def _by_hand(self) -> FinishedProcess:
        self._bench.step("start-up: quickstart by hand")
        place = self._bench.place("start")
        self._bench.quickstart(place)
        return measure(twin("quickstart", "examples/quickstart/orders"), cwd=place, env=self._bench.env)

    def _figure(self, name: str, ours: list[float], other: list[float], goal: Goal | None) -> Figure:
        return Figure(self.title, name, Unit.SECONDS, ours, other, goal=goal)


def phases_of(report: str) -> list[TimedPhase]:
    """Return the phases in the table of `--timings`."""
    found = [(int(at), int(took or 0), name.strip()) for at, took, name in _PHASE.findall(report)]
    return [TimedPhase(name, (at - took) / 1000, at / 1000) for at, took, name in found]
