"""All scenarios at the smallest size: every process starts, responds and ends; the results can be shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.figures import Unit
from benchmarks.report import page, rows
from benchmarks.runner import SCENARIOS, measure_all
from benchmarks.sizes import Sizes

_TINY = Sizes(
    repetitions=1,
    warm_ups=0,
    triggers=3,
    settle_seconds=0.1,
    idle_seconds=0.5,
    rows=1000,
    rate_rows=1000,
    rate_batches=3,
    records=1000,
    upserts=1000,
    memory_records=1000,
    slow_seconds=0.01,
    slow_batches=1,
)
#: those that need services share them
_KAFKA = [name for name, scenario in SCENARIOS.items() if scenario.needs_services]
_GROUPS = [*([name] for name in SCENARIOS if name not in _KAFKA), _KAFKA]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.services
@pytest.mark.soak
@pytest.mark.parametrize("names", _GROUPS, ids=lambda names: names[0])
def test_scenarios_measure_and_report_their_steps(names, cache_dir, capfd):
    reported: list[float] = []
    results = measure_all(
        names,
        sizes=_TINY,
        cache_dir=cache_dir,
        environ=os.environ,
        report_step=lambda doing, done: reported.append(done),
        baseline=Path(__file__).parents[2],
    )
    assert {figure.scenario for figure in results.figures} == set(names)
    for figure in results.figures:
        may_be_zero = figure.unit in (Unit.CORE, Unit.PERCENT)
        assert all(value > 0 or may_be_zero for value in (*figure.ours, *figure.other))
    count = len(reported)
    assert reported == [pytest.approx(number / count) for number in range(count)], (
        "the steps reported are not those announced"
    )
    assert len(rows(results)) == len(results.figures)
    assert all(name in page(results, "chart.svg") for name in names)
    for phases in results.phases.values():
        assert "first rows at a sink" in {phase.name for phase in phases}
    assert bool(results.phases) == bool({"start-up", "kafka start-up"} & set(names))
    assert capfd.readouterr().out == ""


def test_the_command_knows_the_scenarios():
    from benchmarks.__main__ import bench

    only = next(option for option in bench.params if option.name == "names")
    assert list(only.type.choices) == list(SCENARIOS)
