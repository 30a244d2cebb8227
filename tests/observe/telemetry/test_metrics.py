"""Counters, gauges and histograms of a run."""

from __future__ import annotations

import threading

import pytest

from streamling.errors import StreamlingError
from streamling.observe.telemetry.metrics import BUCKETS, Distribution, MetricStore


def test_counters_add_up_and_gauges_keep_the_last_value() -> None:
    store = MetricStore()
    node = store.of("orders")
    node.count("seen")
    node.count("seen", 4)
    node.gauge("depth", 7)
    node.gauge("depth", 3)
    assert store.value("seen", "orders") == 5
    assert store.value("depth", "orders") == 3


def test_latencies_are_milliseconds_in_buckets() -> None:
    store = MetricStore()
    for seconds in (0.1, 0.101, 4000):
        store.of("orders").latency("took", seconds)
    took = store.value("took", "orders")
    assert isinstance(took, Distribution)
    assert (took.count, took.sum) == (3, pytest.approx(4_000_201))
    assert took.buckets == (1, 1, *[0] * (len(BUCKETS) - 2), 1)


def test_series_differ_by_node_and_tags_whatever_the_order_of_these() -> None:
    store = MetricStore()
    store.of("a").count("seen", 1, {"x": "1", "y": "2"})
    store.of("a").count("seen", 1, {"y": "2", "x": "1"})
    store.of("a").count("seen", 1, {"x": "2"})
    store.of("b").count("seen", 1)
    assert store.value("seen", "a", x="1", y="2") == 2
    assert [series.value for series in store.snapshot()] == [2, 1, 1]


def test_a_snapshot_carries_the_tags_of_pipeline_node_and_series() -> None:
    store = MetricStore(tags={"region": "eu", "id": "never seen"})
    store.of("orders").count("seen", 1, {"outcome": "ok"})
    store.add_tags("orders", {"id": "orders", "topic": "of the file"})
    store.add_tags("orders", {"topic": "of the operator"})
    (series,) = store.snapshot()
    assert series.tags == {"region": "eu", "id": "orders", "topic": "of the operator", "outcome": "ok"}


def test_denied_names_are_not_recorded() -> None:
    store = MetricStore(denied=["noise"])
    store.of("orders").count("noise")
    assert store.snapshot() == []


def test_a_name_is_of_one_kind() -> None:
    store = MetricStore()
    store.of("orders").count("seen")
    with pytest.raises(StreamlingError, match="'seen' is a counter and cannot also be a gauge"):
        store.of("payments").gauge("seen", 1)
    with pytest.raises(StreamlingError, match="'seen' is a counter and cannot also be a histogram"):
        store.of("orders").latency("seen", 1)
    with pytest.raises(StreamlingError, match="is a counter and cannot be changed by -1"):
        store.of("orders").count("seen", -1)


def test_threads_lose_nothing() -> None:
    store = MetricStore()
    node = store.of("orders")
    threads = [threading.Thread(target=lambda: [node.count("seen") for _ in range(10_000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.value("seen", "orders") == 40_000


def test_removed_series_are_gone() -> None:
    store = MetricStore()
    store.of("orders").gauge("lag", 5, {"partition": "1"})
    store.of("orders").gauge("lag", 6, {"partition": "2"})
    store.of("orders").remove("lag", {"partition": "1"})
    store.of("orders").remove("lag", {"partition": "unknown"})
    assert [series.tags for series in store.snapshot()] == [{"partition": "2"}]
