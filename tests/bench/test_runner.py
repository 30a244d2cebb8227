"""All scenarios at the smallest size: every process starts, answers and ends; what comes out can be shown."""

from __future__ import annotations

import os

import pytest

from streamling.bench.figures import Unit
from streamling.bench.report import page, rows
from streamling.bench.runner import SCENARIOS, measure_all
from streamling.bench.sizes import Sizes

_TINY = Sizes(
    repetitions=1,
    warm_ups=0,
    triggers=3,
    settle_seconds=0.1,
    idle_seconds=0.5,
    rows=1000,
    rate_rows=1000,
    rate_batches=3,
)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_measures_and_tells_its_steps(name, cache_dir, capfd):
    told: list[float] = []
    results = measure_all(
        [name], sizes=_TINY, cache_dir=cache_dir, environ=os.environ, tell=lambda doing, done: told.append(done)
    )
    assert results.figures
    for figure in results.figures:
        assert figure.scenario == name
        assert all(value > 0 or figure.unit is Unit.CORE for value in (*figure.ours, *figure.other))
    count = len(told)
    assert told == [pytest.approx(number / count) for number in range(count)], "steps told and steps announced differ"
    assert len(rows(results)) == len(results.figures)
    assert name in page(results, "chart.svg")
    if name == "start-up":
        assert "first rows at a sink" in {phase.name for phase in results.phases}
    assert capfd.readouterr().out == ""


def test_the_command_knows_the_scenarios():
    from streamling.cli.bench import bench

    only = next(option for option in bench.params if option.name == "names")
    assert list(only.type.choices) == list(SCENARIOS)
