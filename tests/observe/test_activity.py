from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamling.observe.activity import Activity, Edge, blocked_by_queue, evaluating, passing, work_in_spark
from streamling.observe.telemetry.metrics import Distribution, MetricStore
from tests.observe.clock import ManualClock

NATIVE = {"execution_kind": "native"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> MetricStore:
    return MetricStore()


def activity(store: MetricStore, clock: ManualClock, node: str = "a", **settings) -> Activity:
    return Activity(store.of(node), now=clock, **settings)


@contextmanager
def working(node: Activity) -> Iterator[None]:
    worker = node.worker()
    with worker.alive(), worker.step():
        yield


def waited(store: MetricStore, state: str, downstream: str = "", node: str = "a") -> float | Distribution | None:
    return store.value("node_wait", node, state=state, downstream_id=downstream, **NATIVE)


def test_what_is_not_waiting_is_work(store, clock):
    node = activity(store, clock)
    with working(node):
        clock.advance(3)
        with node.waiting("starved"):
            clock.advance(2)
        with node.waiting("blocked", "out"):
            clock.advance(1)
    spent = node.spent()
    assert (spent.alive, spent.busy, spent.starved, spent.blocked) == (6, 3, 2, {"out": 1})


def test_a_wait_that_has_not_ended_is_included_and_counted_once(store, clock):
    node = activity(store, clock)
    with working(node), node.waiting("blocked", "out"):
        clock.advance(2)
        assert node.spent().blocked == {"out": 2}
        assert waited(store, "blocked", "out") == 2000
        clock.advance(1)
    assert node.spent().blocked == {"out": 3}
    assert waited(store, "blocked", "out") == 3000


def test_fractions_of_milliseconds_are_not_lost(store, clock):
    node = activity(store, clock)
    for _ in range(16):
        with node.waiting("starved"):
            clock.advance(1 / 2048)
    assert waited(store, "starved") == 7


def test_waits_have_histograms_and_long_ones_are_events(store, clock):
    node = activity(store, clock, event_seconds=0.2)
    for seconds in (0.1, 0.3):
        with node.waiting("blocked", "out"):
            clock.advance(seconds)
    with node.waiting("starved"):
        clock.advance(0.05)
    blocked = store.value("node_backpressure_wait", "a", **NATIVE)
    starved = store.value("node_idle_wait", "a", **NATIVE)
    assert isinstance(blocked, Distribution)
    assert isinstance(starved, Distribution)
    assert (blocked.count, round(blocked.sum), starved.count, round(starved.sum)) == (2, 400, 1, 50)
    assert store.value("node_backpressure_events", "a", **NATIVE) == 1


def test_a_full_queue_blocks_every_node_on_the_path(store, clock):
    source, sql = activity(store, clock, "source"), activity(store, clock, "sql")
    with working(source), passing(Edge(source, "sql")), passing(Edge(sql, "out")), blocked_by_queue():
        clock.advance(4)
    assert source.spent().blocked == {"sql": 4}
    assert sql.spent().blocked == {"out": 4}


def test_work_of_spark_is_not_work_of_the_thread_that_waits_for_it(store, clock):
    source, sql = activity(store, clock, "source"), activity(store, clock, "sql")
    with working(source):
        clock.advance(5)
        work_in_spark(sql, 4.0)
    assert source.spent().busy == 1
    assert sql.spent().busy == 4


def test_empty_batches_are_counted_and_rows_end_the_streak(store, clock):
    node = activity(store, clock)
    for rows in (5, 0, 0, 3):
        node.count_batch(rows)
    assert store.value("node_empty_batch", "a", **NATIVE) == 2
    assert store.value("node_empty_streak", "a", **NATIVE) == 0
    node.count_batch(0)
    assert store.value("node_empty_streak", "a", **NATIVE) == 1


def test_nodes_of_plugins_are_marked(store, clock):
    node = activity(store, clock, kind="plugin")
    node.report_queue(2)
    assert store.value("node_inflight_buffered", "a", execution_kind="plugin") == 2


def test_a_node_is_evaluating_until_the_end_of_a_block_and_after_one_that_has_failed(store, clock):
    node = activity(store, clock)
    worker = node.worker()
    with worker.step():
        with evaluating():
            with evaluating():
                assert node.is_evaluating
            assert node.is_evaluating
        assert not node.is_evaluating
        with pytest.raises(OSError), evaluating():
            raise OSError("the JVM has ended")
    assert node.is_evaluating  # also after its last step
    with worker.step(), evaluating():
        pass
    assert not node.is_evaluating
