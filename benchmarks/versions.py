"""Versions: this checkout compared with another one, by the command line alone, so that any two can be compared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks import data
from benchmarks.children import STREAMLING, RunningProcess, measure, running
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.records import COLUMNS
from benchmarks.sizes import Sizes
from benchmarks.usage import usage
from benchmarks.workbench import Scenario
from streamling.errors import StreamlingError

T = TypeVar("T")

_SPEED_GOAL = Goal(ratio=0.95)
#: starts and memory may vary a little
_COST_GOAL = Goal(ratio=1.1)
#: records between two printed ones, as a share of all; their times give the rate, without start-up
_SHARE = 10
_MEASURED = 3

_FILES = """
sources:
  orders: {{type: file, path: '{folder}', format: csv, mode: {{type: bounded}}, primary_key: order_id}}
transforms:
  chosen: {{type: sql, primary_key: order_id, sql: "SELECT {columns} FROM orders"}}
  some: {{type: sql, primary_key: order_id, sql: "SELECT order_id FROM chosen WHERE order_id % {every} = 0"}}
sinks:
  screen: {{type: print, from: some}}
"""
_TOPIC = """
sources:
  changes: {{type: kafka, topic: {topic}, primary_key: id}}
transforms:
  shaped: {{type: sql, primary_key: id, sql: "SELECT {columns} FROM changes"}}
  some: {{type: sql, primary_key: id, sql: "SELECT id FROM shaped WHERE id % {every} = 0"}}
sinks:
  screen: {{type: print, from: some}}
"""


@dataclass(frozen=True)
class Start:
    """Seconds from the start of the process."""

    first_row: float
    end: float


@dataclass(frozen=True)
class Reading:
    """Records of a topic, without those before the first printed one."""

    thousand_per_second: float
    cpu_per_record: float
    megabytes: float


class Versions(Scenario):
    """Both versions run the same pipeline files on the same data, in turn, each with its own Python environment."""

    title = "versions"
    needs_services = True
    needs_proc = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 3 + 2 * _MEASURED * sizes.rounds

    def figures(self) -> list[Figure]:
        bench = self._bench
        assert bench.baseline is not None, "the scenario was chosen without another version"
        bench.step("versions: start-up archive of the other version")
        other = _python(bench.baseline)
        measure([other, "-m", "streamling", "doctor", "--fix"], cwd=bench.place("doctor"), env=self._env)
        commands = {"ours": STREAMLING, "theirs": (other, "-m", "streamling")}
        return [*self._starts(commands), *self._files(commands), *self._readings(commands)]

    @property
    def _env(self) -> Mapping[str, str]:
        # each version imports its own modules
        return {name: value for name, value in self._bench.services_env.items() if name != "PYTHONPATH"}

    def _starts(self, commands: Mapping[str, Sequence[str]]) -> list[Figure]:
        ours, theirs = self._both("quickstart", self._start, commands)
        return [
            self._figure("first row of the quickstart", Unit.SECONDS, ours, theirs, lambda one: one.first_row),
            self._figure("quickstart, whole run", Unit.SECONDS, ours, theirs, lambda one: one.end),
        ]

    def _start(self, command: Sequence[str]) -> Start:
        place = self._bench.place("version-start")
        found = measure([*command, "run", self._bench.quickstart(place)], cwd=place, env=self._env)
        return Start(found.first_line, found.ended)

    def _files(self, commands: Mapping[str, Sequence[str]]) -> list[Figure]:
        bench = self._bench
        bench.step("versions: files to read")
        folder, rows = data.prepare(bench.cache_dir, bench.sizes.rows) / "csv", bench.sizes.rows
        text = _FILES.format(folder=folder, columns=", ".join(data.COLUMNS), every=rows)
        ours, theirs = self._both("csv → SQL", partial(self._run, text), commands)
        return [self._figure(f"{rows / 1e6:g} M rows of CSV, whole run", Unit.SECONDS, ours, theirs, float)]

    def _run(self, text: str, command: Sequence[str]) -> float:
        place = self._pipeline(text)
        return measure([*command, "run", "pipeline.yaml"], cwd=place, env=self._env).ended

    def _readings(self, commands: Mapping[str, Sequence[str]]) -> list[Figure]:
        bench = self._bench
        bench.step("versions: a topic")
        topic, count = bench.topic(bench.sizes.memory_records), bench.sizes.memory_records
        every = count // _SHARE
        text = _TOPIC.format(topic=topic, columns=", ".join(COLUMNS), every=every)
        ours, theirs = self._both("Kafka → SQL", partial(self._read, text, every), commands)
        name = f"{count / 1e6:g} M Avro records of a topic"
        figure = partial(self._figure, ours=ours, theirs=theirs)
        return [
            figure(name, Unit.THOUSAND_ROWS, value=lambda one: one.thousand_per_second),
            figure(name, Unit.CPU_PER_ROW, value=lambda one: one.cpu_per_record),
            figure(f"{name}, JVM + Python", Unit.MEGABYTES, value=lambda one: one.megabytes),
        ]

    def _read(self, text: str, every: int, command: Sequence[str]) -> Reading:
        place = self._pipeline(text)
        # a separate consumer group: that of the previous run has read everything
        env = {**self._env, "STREAMLING__APPLICATION_ID": self._bench.services.table()}
        with running([*command, "run", "pipeline.yaml"], cwd=place, env=env) as process:
            self._wait_for(process, 0)
            began, before = time.monotonic(), usage(process.pid)
            self._wait_for(process, (_SHARE - 1) * every)
            seconds, after = time.monotonic() - began, usage(process.pid)
        records = (_SHARE - 1) * every
        cpu = (after.cpu_seconds - before.cpu_seconds) / records * 1e6
        return Reading(records / seconds / 1e3, cpu, after.memory_mb)

    def _wait_for(self, process: RunningProcess, number: int) -> None:
        while json.loads(process.line())["id"] < number:
            pass

    def _pipeline(self, text: str) -> Path:
        place = self._bench.place("version")
        (place / "pipeline.yaml").write_text(text, encoding="utf-8")
        return place

    def _both(
        self, name: str, work: Callable[[Sequence[str]], T], commands: Mapping[str, Sequence[str]]
    ) -> tuple[list[T], list[T]]:
        def measured(label: str) -> T:
            self._bench.step(f"versions: {name}, {label}")
            return work(commands[label])

        found = self._bench.alternate(**{label: partial(measured, label) for label in commands})
        return found["ours"], found["theirs"]

    def _figure(
        self, name: str, unit: Unit, ours: Sequence[T], theirs: Sequence[T], value: Callable[[T], float]
    ) -> Figure:
        return Figure(
            self.title,
            name,
            unit,
            [value(one) for one in ours],
            [value(one) for one in theirs],
            compared_with="the other version",
            goal=_SPEED_GOAL if unit.more_is_better else _COST_GOAL,
        )


def _python(checkout: Path) -> str:
    """Return the interpreter of another checkout, in which streamling is installed."""
    found = checkout.absolute() / ".venv" / "bin" / "python"
    if not found.exists():
        raise StreamlingError.user(f"{checkout} has no .venv", remedy="run 'make .venv/dev' there")
    return str(found)
