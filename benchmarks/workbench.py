"""Shared by all scenarios: folders, environment, sizes, and alternating runs."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from benchmarks.children import Worker, worker
from benchmarks.figures import Figure
from benchmarks.services import CONNECTORS, Services
from benchmarks.sizes import Sizes
from streamling.spark.jvm.timings import TimedPhase

T = TypeVar("T")

#: called with the current step and the completed fraction, 0 to 1
ReportStep = Callable[[str, float], None]

_QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart"


@dataclass
class Workbench:
    """The environment of one run of the benchmarks."""

    folder: Path
    cache_dir: Path
    env: Mapping[str, str]
    sizes: Sizes
    report_step: ReportStep
    services: Services
    #: number of steps of all scenarios
    total: int
    #: whether plain PySpark can start here
    has_pyspark: bool = True
    #: a checkout of another version, with its environment in `.venv`
    baseline: Path | None = None
    done: int = field(default=0, init=False)
    #: the measured starts, by what was started
    phases: dict[str, list[TimedPhase]] = field(default_factory=dict, init=False)

    @property
    def services_env(self) -> Mapping[str, str]:
        """The environment of a process that uses the services; starts them if they are not running."""
        return {**self.env, **self.services.env}

    @contextmanager
    def kafka_worker(self, kind: str, name: str) -> Iterator[Worker]:
        """A worker for the jobs with Kafka."""
        with worker(kind, *CONNECTORS, cwd=self.place(name), env=self.services_env) as process:
            yield process

    def topic(self, count: int, *, headers: bool = True) -> str:
        """Return a topic with ``count`` records in one partition."""
        name = f"changes-{count}{'' if headers else '-bare'}"

        def fill() -> None:
            with self.kafka_worker("ours", "fill") as process:
                process.do(side="by hand", job="fill", topic=name, count=count, headers=headers)

        return self.services.topic(name, fill)

    def step(self, doing: str) -> None:
        """Report the next step."""
        self.report_step(doing, self.done / self.total)
        self.done += 1

    def place(self, name: str) -> Path:
        """Return an empty folder for a process."""
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def quickstart(self, place: Path, *changes: tuple[str, str]) -> str:
        """Copy the quickstart to ``place``; returns its pipeline file, with some words replaced."""
        shutil.copytree(_QUICKSTART, place / "examples" / "quickstart")
        file = place / "examples" / "quickstart" / "pipeline.yaml"
        text = file.read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, f"the quickstart no longer contains {old!r}"
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
        return str(file.relative_to(place))

    def alternate(self, times: int = 1, /, **measures: Callable[[], T]) -> dict[str, list[T]]:
        """Run all measurements alternately, every second round in reverse order, so that a change of the machine
        affects all alike. Warm-up rounds are not returned. ``times`` multiplies the number of rounds, for measurements
        that are so short that single runs vary."""
        found: dict[str, list[T]] = {name: [] for name in measures}
        for number in range(self.sizes.rounds_for(times)):
            for name in list(measures)[:: 1 if number % 2 == 0 else -1]:
                found[name].append(measures[name]())
        return {name: values[self.sizes.warm_ups :] for name, values in found.items()}


class Scenario(ABC):
    """One group of results."""

    title: ClassVar[str]
    #: whether it uses Kafka, Postgres or ClickHouse
    needs_services: ClassVar[bool] = False
    #: whether it compares with aiohttp
    needs_aiohttp: ClassVar[bool] = False
    #: whether it compares with clickhouse-connect
    needs_clickhouse_connect: ClassVar[bool] = False
    #: whether all its results come from /proc
    needs_proc: ClassVar[bool] = False

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    @staticmethod
    @abstractmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        """Return the number of steps that `figures` will report."""

    @abstractmethod
    def figures(self) -> list[Figure]:
        """Measure."""
