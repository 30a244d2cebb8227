from __future__ import annotations

from streamling.observe.history import LENGTH, History, NodeSample, Sample


def sample(at: float, rows: int = 0) -> Sample:
    return Sample(at, {"a": NodeSample(rows_out=rows)}, rows_in=rows, rows_out=rows, lag=7)


def test_the_first_sample_is_compared_with_the_start():
    assert History(100.0).add(sample(103.0)).at == 100.0


def test_later_samples_are_compared_with_one_that_is_about_five_seconds_old():
    history = History(100.0)
    for second in range(1, 20):
        history.add(sample(100.0 + second))
    assert history.add(sample(120.0)).at == 115.0


def test_the_series_contains_rates_per_second():
    history = History(100.0)
    history.add(sample(101.0, 10))
    history.add(sample(102.0, 40))
    assert history.series(102.0) == {
        "rate_in": [10.0, 30.0],
        "rate_out": [10.0, 30.0],
        "lag": [7, 7],
        "age_s": [1.0, 0.0],
    }


def test_samples_in_quick_succession_are_not_kept():
    history = History(100.0)
    for at in (101.0, 101.1, 101.2):
        history.add(sample(at))
    assert len(history.series(101.2)["lag"]) == 1


def test_at_most_two_minutes_are_kept():
    history = History(0.0)
    for second in range(1, 500):
        history.add(sample(float(second)))
    assert len(history.series(499.0)["lag"]) == LENGTH


def test_after_a_break_old_samples_do_not_count():
    history = History(0.0)
    history.add(sample(1.0, 10))
    assert history.add(sample(1000.0, 2000)).at == 1.0
    assert history.series(1000.0)["lag"] == []
