"""When generated rows are due, in simulated time."""

from __future__ import annotations

import pytest

from streamling.connectors.generate.pace import Pace


def deliver(pace: Pace, until: float, *, now: float = 0.0, most: int = 100_000) -> list[tuple[float, int]]:
    """Ask for rows like the engine; returns when how many were delivered."""
    batches = []
    while now < until:
        if rows := pace.take(now, most):
            batches.append((now, rows))
        now += max(pace.wait(now), 1e-6)
    return batches


@pytest.mark.parametrize("rate", [0.1, 1, 7, 50, 51, 333, 1_000, 250_000])
def test_the_rate_is_kept(rate: float) -> None:
    seconds = 100
    delivered = sum(rows for _, rows in deliver(Pace(rate), seconds))
    assert delivered == pytest.approx(rate * seconds, rel=0.01, abs=1)


def test_slow_rows_come_one_by_one_at_equal_distances() -> None:
    batches = deliver(Pace(4), 3)
    assert [rows for _, rows in batches] == [1] * 12
    assert [now for now, _ in batches] == pytest.approx([number / 4 for number in range(12)])


def test_fast_rows_come_in_small_batches() -> None:
    batches = deliver(Pace(1_000), 1)
    assert max(rows for _, rows in batches) <= 21
    assert len(batches) <= 51


def test_a_short_delay_is_made_up_for() -> None:
    pace = Pace(100)
    pace.take(0.0, 1000)
    assert pace.take(0.5, 1000) == 50


def test_a_long_pause_does_not_end_in_a_flood() -> None:
    pace = Pace(100)
    pace.take(0.0, 1_000_000)
    assert pace.take(3600.0, 1_000_000) == 101
    assert sum(rows for _, rows in deliver(pace, 3610, now=3600.0)) == pytest.approx(1_000, abs=1)


def test_rows_that_do_not_fit_into_a_batch_come_immediately_after_it() -> None:
    pace = Pace(1_000)
    pace.take(0.0, 10)
    assert [pace.take(0.03, 10) for _ in range(4)] == [10, 10, 10, 0]


def test_a_slow_row_that_is_late_does_not_shift_the_next_one() -> None:
    pace = Pace(1)
    pace.take(0.0, 10)
    assert pace.take(1.4, 10) == 1
    assert pace.wait(1.4) == pytest.approx(0.6)
