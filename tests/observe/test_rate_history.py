from __future__ import annotations

import random
import sys

from streamling.observe.rate_history import INTERVAL, LENGTH, Counts, RateHistory, RunCounts

START = 1_800_000_000.0


def counts(rows: int, lag: int | None = None, **nodes: int) -> RunCounts:
    return RunCounts(Counts(rows, rows, lag), {name: Counts(number, number) for name, number in nodes.items()})


def running(*rows: int, every: float = INTERVAL) -> RateHistory:
    """A history of a run with these totals."""
    history = RateHistory()
    for number, each in enumerate(rows):
        history.add(START + number * every, counts(each))
    return history


def rates(history: RateHistory, now: float, buckets: int, node: str | None = None) -> list[float | None]:
    found: list[float | None] = history.series(now, buckets, node)["rate_in"]
    return found


def test_rates_are_per_second_and_the_first_rows_of_a_run_count():
    assert rates(running(100, 300, 300, 400), START + 30, 5) == [None, 10.0, 20.0, 0.0, 10.0]


def test_a_bucket_that_was_missed_has_the_average():
    history = running(0)
    history.add(START + 40, counts(400))
    assert rates(history, START + 40, 5) == [0.0, 10.0, 10.0, 10.0, 10.0]


def test_counts_that_come_early_wait_for_the_next_bucket():
    history = running(0)
    history.add(START + 9, counts(90))
    assert rates(history, START + 9, 1) == [0.0]
    history.add(START + 10, counts(100))
    assert rates(history, START + 10, 2) == [0.0, 10.0]


def test_while_nothing_runs_there_are_no_numbers_and_a_new_run_begins_at_zero():
    history = running(0, 100)
    history.end(START + 15, counts(150))
    assert rates(history, START + 50, 6) == [0.0, 10.0, 5.0, None, None, None]
    history.add(START + 60, counts(20))
    assert rates(history, START + 60, 7) == [0.0, 10.0, 5.0, None, None, None, 2.0]


def test_a_run_that_begins_in_the_bucket_in_which_the_last_one_ended():
    history = running(0, 100)
    history.end(START + 11, None)
    history.add(START + 20, counts(50))
    assert rates(history, START + 20, 3) == [0.0, 10.0, 5.0]


def test_the_last_counts_are_kept_after_the_end():
    history = running(0)
    assert RateHistory().last is None
    history.end(START + 20, counts(70))
    assert history.last == (START + 20, counts(70))


def test_an_unknown_lag_is_unknown_and_a_known_one_is_a_whole_number():
    history = RateHistory()
    history.add(START, counts(0))
    history.add(START + 10, counts(0, lag=7))
    assert history.series(START + 10, 2)["lag"] == [None, 7]


def test_nodes_have_numbers_of_their_own_and_leave_with_their_definition():
    history = RateHistory()
    history.add(START, counts(0, orders=0, out=0))
    history.add(START + 10, counts(0, orders=100, out=50))
    history.add(START + 20, counts(0, orders=200))
    assert rates(history, START + 20, 3, "orders") == [0.0, 10.0, 10.0]
    assert rates(history, START + 20, 3, "out") == [0.0, 5.0, None]
    assert rates(history, START + 20, 3, "unknown") == [None, None, None]


def test_an_hour_is_kept():
    history = running(*range(0, 10 * (LENGTH + 100), 10))
    now = START + (LENGTH + 99) * INTERVAL
    assert rates(history, now, LENGTH) == [1.0] * LENGTH


def test_a_series_says_when_it_ends_and_how_long_ago_that_is():
    series = running(0, 0).series(START + 24, 2)
    assert (series["until"], series["age_s"]) == ("2027-01-15T08:00:20+00:00", 4.0)


def test_random_runs_lose_no_row():
    chance = random.Random(20261118)
    for _ in range(50):
        history, now, expected = RateHistory(), START, 0
        for _ in range(chance.randint(1, 3)):
            total = 0
            for _ in range(chance.randint(1, 20)):
                now += chance.choice([10, 10, 10, 10.4, 30])
                total += chance.choice([0, 0, 1000, 7000])
                history.add(now, counts(total))
            now += chance.uniform(1, 9)
            total += 500
            history.end(now, counts(total))
            expected += total
            now += chance.uniform(30, 100)
        found = sum(each for each in rates(history, now, LENGTH) if each is not None) * INTERVAL
        assert abs(found - expected) < 1


def test_an_idle_node_takes_no_more_memory_and_a_busy_one_at_most_six_kilobytes():
    def size(rows: int) -> int:
        history = RateHistory()
        for number in range(10 * LENGTH):
            history.add(START + number * INTERVAL, counts(0, a=number * number * rows))
        arrays = [each for each in _reachable(history) if type(each).__name__ == "array"]
        return sum(map(sys.getsizeof, arrays))

    assert size(0) < 1000
    assert size(1) < 6500 + 1000


def _reachable(history: RateHistory) -> list[object]:
    import gc

    found, waiting = {id(history): history}, [history]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if id(each) not in found and type(each).__name__ in ("dict", "_Series", "array"):
                found[id(each)] = each
                waiting.append(each)
    return list(found.values())
