"""When a result meets its goal."""

from __future__ import annotations

import pytest
from benchmarks.figures import Figure, Goal, Unit, Verdict


def figure(ours, other=(), *, goal=None, unit=Unit.SECONDS):
    return Figure("start-up", "first row", unit, ours, other, goal=goal)


def test_the_ratio_is_that_of_the_medians():
    assert figure([1, 2, 9], [4, 4, 100]).ratio == 0.5


def test_the_ratio_by_round_is_the_mean_of_all_rounds():
    rounds = Figure("telemetry", "watched", Unit.MILLION_ROWS, [2.0, 40.0], [1.0, 80.0], by_round=True)
    assert rounds.ratio == pytest.approx(1.0)
    assert Figure("telemetry", "watched", Unit.MILLION_ROWS, [2.0, 40.0], [1.0, 80.0]).ratio == pytest.approx(21 / 40.5)


def test_there_is_no_ratio_without_another_figure():
    assert figure([1.0]).ratio is None


def test_cost_is_inverted_if_more_is_better():
    assert figure([2.0], [1.0], unit=Unit.MILLION_ROWS).cost == 0.5
    assert figure([2.0], [1.0]).cost == 2.0


@pytest.mark.parametrize(
    ("goal", "ours", "other", "verdict"),
    [
        (Goal(bound=5), 4.9, None, Verdict.MET),
        (Goal(bound=5), 5.1, None, Verdict.MISSED),
        (Goal(bound=5, ratio=0.5), 4.0, 9.0, Verdict.MET),
        (Goal(bound=5, ratio=0.5), 4.0, 7.0, Verdict.MISSED),
        (Goal(bound=5, ratio=0.5), 6.0, 90.0, Verdict.MISSED),
        (Goal(bound=5, ratio=0.5), 4.0, None, Verdict.OPEN),
        (Goal(bound=5, ratio=1.2, either=True), 6.0, 5.5, Verdict.MET),
        (Goal(bound=5, ratio=1.2, either=True), 4.0, 1.0, Verdict.MET),
        (Goal(bound=5, ratio=1.2, either=True), 6.0, 1.0, Verdict.MISSED),
        (Goal(bound=5, ratio=1.2, either=True), 4.0, None, Verdict.MET),
        (Goal(bound=5, ratio=1.2, either=True), 6.0, None, Verdict.OPEN),
        (None, 4.0, 1.0, Verdict.OPEN),
    ],
)
def test_a_goal_is_met_missed_or_open(goal, ours, other, verdict):
    assert figure([ours], [other] if other else [], goal=goal).verdict is verdict


def test_rates_must_reach_the_goal():
    assert figure([0.96], [1.0], goal=Goal(ratio=0.95), unit=Unit.MILLION_ROWS).verdict is Verdict.MET
    assert figure([0.94], [1.0], goal=Goal(ratio=0.95), unit=Unit.MILLION_ROWS).verdict is Verdict.MISSED


def test_the_text_of_a_goal_matches_its_verdict():
    assert Goal(bound=5, ratio=0.5).text(Unit.SECONDS) == "≤ 5.00 s, ≤ 0.5 ×"
    assert Goal(bound=60, ratio=1.2, either=True).text(Unit.MILLISECONDS) == "≤ 60.0 ms or ≤ 1.2 ×"
    assert Goal(ratio=0.95).text(Unit.MILLION_ROWS) == "≥ 0.95 ×"
