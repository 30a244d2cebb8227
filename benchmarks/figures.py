"""Results, what they are compared with, and whether they meet their goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import geometric_mean, median

from benchmarks.sizes import Sizes
from streamling.spark.jvm.timings import TimedPhase


class Unit(Enum):
    """A unit: how its values are formatted, and whether more is better."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MILLION_ROWS = "M rows/s"
    REQUESTS = "requests/s"
    THOUSAND_ROWS = "k rows/s"
    CPU_PER_ROW = "µs of CPU per row"
    PERCENT = "%"
    CORE = "% of a core"
    MEGABYTES = "MB"
    COUNT = ""

    @property
    def more_is_better(self) -> bool:
        return self in (Unit.MILLION_ROWS, Unit.THOUSAND_ROWS, Unit.REQUESTS)

    def text(self, value: float) -> str:
        return f"{self.digits(value)} {self.value}"

    def digits(self, value: float) -> str:
        """Return three significant digits."""
        if value >= 100:
            return f"{value:.0f}"
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


class Verdict(Enum):
    MET = "met"
    MISSED = "missed"
    #: there is no goal, or what it refers to could not be measured
    OPEN = ""


@dataclass(frozen=True)
class Goal:
    """A bound on our own result, on the ratio to the other one, or on both; with ``either``, one of them is enough."""

    bound: float | None = None
    ratio: float | None = None
    either: bool = False

    def text(self, unit: Unit) -> str:
        sign = "≥" if unit.more_is_better else "≤"
        parts = [f"{sign} {unit.text(self.bound)}"] if self.bound is not None else []
        parts += [f"{sign} {self.ratio:g} ×"] if self.ratio is not None else []
        return (" or " if self.either else ", ").join(parts)

    def verdict(self, unit: Unit, value: float, ratio: float | None) -> Verdict:
        met = [_within(unit, value, self.bound)] if self.bound is not None else []
        if self.ratio is not None and ratio is not None:
            met.append(_within(unit, ratio, self.ratio))
        if not met or (self.ratio is not None and ratio is None and not (self.either and any(met))):
            return Verdict.OPEN
        return Verdict.MET if (any(met) if self.either else all(met)) else Verdict.MISSED


@dataclass(frozen=True)
class Figure:
    """One quantity measured several times, for us and, if there is one, for a counterpart."""

    scenario: str
    name: str
    unit: Unit
    ours: Sequence[float]
    other: Sequence[float] = ()
    #: what ``other`` is
    compared_with: str = "PySpark"
    goal: Goal | None = None
    #: whether values at the same place are of the same round: for differences smaller than those between rounds
    by_round: bool = False

    @property
    def ratio(self) -> float | None:
        """Ours to the other: the ratio of the medians, or the mean of the ratios of all rounds."""
        if not self.other or not median(self.other):
            return None
        if self.by_round:
            return geometric_mean([ours / other for ours, other in zip(self.ours, self.other, strict=True)])
        return median(self.ours) / median(self.other)

    @property
    def cost(self) -> float | None:
        """The ratio, inverted if needed so that less is always better."""
        ratio = self.ratio
        return 1 / ratio if ratio and self.unit.more_is_better else ratio

    @property
    def verdict(self) -> Verdict:
        return self.goal.verdict(self.unit, median(self.ours), self.ratio) if self.goal else Verdict.OPEN

    def best(self, values: Sequence[float]) -> float:
        return max(values) if self.unit.more_is_better else min(values)


@dataclass(frozen=True)
class Machine:
    """The machine of the results."""

    system: str
    processor: str
    cores: int
    memory_gb: float
    versions: dict[str, str]
    #: runnable processes of others when the run started
    load: float


@dataclass(frozen=True)
class Results:
    """One run of the benchmarks."""

    date: str
    machine: Machine
    sizes: Sizes
    figures: Sequence[Figure]
    #: by what was started: the run with the median time to the first row
    phases: Mapping[str, Sequence[TimedPhase]] = field(default_factory=dict)
    #: what could not be measured here, and why
    notes: Sequence[str] = field(default_factory=tuple)

    def renewed(self, newer: Results) -> Results:
        """Return these results with the scenarios of ``newer`` replaced; a note lists them."""
        measured = list(dict.fromkeys(figure.scenario for figure in newer.figures))
        order = list(dict.fromkeys(figure.scenario for figure in (*self.figures, *newer.figures)))
        both = [*(figure for figure in self.figures if figure.scenario not in measured), *newer.figures]
        note = f"Measured in a separate run, after the others: {', '.join(measured)}."
        return Results(
            newer.date,
            newer.machine,
            newer.sizes,
            sorted(both, key=lambda figure: order.index(figure.scenario)),
            {**self.phases, **newer.phases},
            [*newer.notes, note],
        )


def _within(unit: Unit, value: float, bound: float) -> bool:
    return value >= bound if unit.more_is_better else value <= bound
