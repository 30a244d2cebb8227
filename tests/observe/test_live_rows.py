from __future__ import annotations

import pyarrow as pa

from streamling.observe.live_rows import LARGEST, LiveRows
from tests.observe.clock import ManualClock

RECORDS, WINDOW = 15, 30.0


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def live(clock: ManualClock | None = None, *, always: bool = False) -> LiveRows:
    return LiveRows(["a", "b"], RECORDS, WINDOW, always=always, now=clock or ManualClock())


def stored(live_rows: LiveRows) -> list[list[int]]:
    return [batch.column("id").to_pylist() for batch in live_rows.stored("a")]


def test_a_few_rows_of_each_window_are_kept_newest_first():
    clock = ManualClock()
    shown = live(clock)
    node = shown.of("a")
    node.offer(rows(*range(10)))
    node.offer(rows(*range(10, 30)))
    assert stored(shown) == [[10, 11, 12, 13, 14], [*range(10)]]
    assert node.wanted(in_python=True) == 0
    clock.advance(WINDOW)
    assert node.wanted(in_python=True) == RECORDS
    node.offer(rows(*range(100, 200)))
    assert stored(shown) == [[*range(100, 115)]]


def test_kept_rows_do_not_keep_their_batch_in_memory():
    shown = live()
    shown.of("a").offer(rows(*range(100_000)))
    (kept,) = shown.stored("a")
    assert kept.get_total_buffer_size() < 1000


def test_rows_that_stay_in_spark_are_wanted_only_while_somebody_watches():
    shown = live()
    node = shown.of("a")
    assert node.wanted(in_python=False) == 0
    with shown.listening(["a"]):
        assert node.wanted(in_python=False) == RECORDS
    assert node.wanted(in_python=False) == 0


def test_with_live_data_inspect_they_are_always_wanted():
    assert live(always=True).of("a").wanted(in_python=False) == RECORDS


def test_jobs_for_rows_in_spark_cost_at_most_a_hundredth_of_the_time():
    """Two nodes that are watched share it."""
    clock = ManualClock()
    shown = live(clock)
    node = shown.of("a")
    with shown.listening(["a", "b"], per_second=100):
        node.offer(rows(1), job_seconds=0.5)
        clock.advance(99.9)
        assert node.wanted(in_python=False) == 0
        clock.advance(0.2)
        assert node.wanted(in_python=False) > 0


def test_a_listener_gets_the_rows_that_are_kept():
    shown = live()
    with shown.listening(["a"]) as listener:
        shown.of("a").offer(rows(1, 2))
        shown.of("b").offer(rows(3))
        assert {name: batch.num_rows for name, batch in listener.take().items()} == {"a": 2}
        assert listener.take() == {}


def test_rows_that_a_listener_has_not_taken_are_not_replaced():
    shown = live()
    with shown.listening(["a"]) as listener:
        shown.of("a").offer(rows(1, 2))
        shown.of("a").offer(rows(3))
        assert listener.take()["a"].column("id").to_pylist() == [1, 2]


def test_a_listener_with_a_rate_gets_more_than_those():
    clock = ManualClock()
    shown = live(clock)
    node = shown.of("a")
    with shown.listening(["a"], per_second=100) as listener:
        node.offer(rows(*range(1000)))
        assert listener.take()["a"].num_rows == 100
        clock.advance(0.5)
        node.offer(rows(*range(1000)))
        assert listener.take()["a"].num_rows == 50


def test_a_listener_that_selects_gets_whole_batches_up_to_a_limit():
    shown = live()
    with shown.listening(["a"], whole=True) as listener:
        shown.of("a").offer(rows(*range(LARGEST + 5)))
        assert listener.take()["a"].num_rows == LARGEST


def test_a_listener_that_selects_gets_one_batch_per_second():
    clock = ManualClock()
    shown = live(clock)
    with shown.listening(["a"], whole=True) as listener:
        shown.of("a").offer(rows(1))
        listener.take()
        clock.advance(0.5)
        shown.of("a").offer(rows(2))
        assert listener.take() == {}
        clock.advance(0.5)
        shown.of("a").offer(rows(3))
        assert listener.take()["a"].column("id").to_pylist() == [3]


def test_a_listener_that_stops_reading_holds_one_batch_and_slows_nobody_down():
    clock = ManualClock()
    shown = live(clock)
    node = shown.of("a")
    with shown.listening(["a"], per_second=10) as stuck, shown.listening(["a"], per_second=10) as reading:
        got = 0
        for number in range(100):
            clock.advance(1)
            node.offer(rows(*range(number * 10, number * 10 + 10)))
            got += reading.take()["a"].num_rows
        assert got == 1000
        assert stuck.take()["a"].column("id").to_pylist() == [*range(10)]


def test_rows_of_a_listener_do_not_keep_their_batch_in_memory():
    shown = live()
    with shown.listening(["a"], per_second=10) as listener:
        shown.of("a").offer(rows(*range(100_000)))
        assert listener.take()["a"].get_total_buffer_size() < 1000
