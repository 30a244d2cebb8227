"""What every scenario works with: folders, environment, sizes, and turns taken in a fair order."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from streamling.bench.figures import Figure
from streamling.bench.sizes import Sizes
from streamling.engine.timings import Phase

T = TypeVar("T")

#: called with what is being done and which share of all is done, 0 to 1
Tell = Callable[[str, float], None]

_QUICKSTART = Path(__file__).parent / "quickstart"


@dataclass
class Workbench:
    """The surroundings of one run of the benchmarks."""

    folder: Path
    cache_dir: Path
    env: Mapping[str, str]
    sizes: Sizes
    tell: Tell
    #: steps of all scenarios together
    total: int
    #: whether plain PySpark can start here
    has_pyspark: bool = True
    done: int = field(default=0, init=False)
    #: of a start, when one was measured
    phases: list[Phase] = field(default_factory=list, init=False)

    def step(self, doing: str) -> None:
        """Tell what is measured next."""
        self.tell(doing, self.done / self.total)
        self.done += 1

    def place(self, name: str) -> Path:
        """An empty folder to start a process in."""
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def quickstart(self, place: Path, *changes: tuple[str, str]) -> str:
        """Put the quickstart into ``place``; its pipeline file, with some words changed."""
        shutil.copytree(_QUICKSTART, place / "examples" / "quickstart")
        file = place / "examples" / "quickstart" / "pipeline.yaml"
        text = file.read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, f"the quickstart has no {old!r} any more"
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
        return str(file.relative_to(place))

    def alternate(self, **measures: Callable[[], T]) -> dict[str, list[T]]:
        """Take all measures in turns, every second round backwards, so that a change of the machine hits all alike.
        Rounds that only warm up are left out of what is returned."""
        found: dict[str, list[T]] = {name: [] for name in measures}
        for number in range(self.sizes.rounds):
            for name in list(measures)[:: 1 if number % 2 == 0 else -1]:
                found[name].append(measures[name]())
        return {name: values[self.sizes.warm_ups :] for name, values in found.items()}


class Scenario(ABC):
    """One group of figures."""

    title: ClassVar[str]

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    @staticmethod
    @abstractmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        """How often `figures` will tell what it does."""

    @abstractmethod
    def figures(self) -> list[Figure]:
        """Measure."""
