from __future__ import annotations

import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from streamling.observe.event_times import EventTimes
from streamling.observe.telemetry.metrics import Distribution, MetricStore
from streamling.pipeline.options import EventTime


def times(store: MetricStore, unit: str | None = None) -> EventTimes:
    return EventTimes("a", EventTime(column="at", unit=unit), store.of("a"))


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        (pa.array([100, 300, None, 200]), "seconds"),
        (pa.array([100_000, 300_000, None, 200_000]), "milliseconds"),
        (pa.array([100_000_000, 300_000_000, None, 200_000_000]), "microseconds"),
        (pa.array([100, 300, None, 200], pa.timestamp("s")), None),
        (pa.array([datetime.fromtimestamp(300, UTC), None], pa.timestamp("us", "UTC")), "seconds"),
    ],
)
def test_the_watermark_is_the_latest_event_time_in_milliseconds(column, unit):
    store = MetricStore()
    times(store, unit).record_batch(pa.record_batch({"at": column}))
    assert store.value("event_time_watermark", "a") == 300_000


def test_a_watermark_never_moves_back():
    store = MetricStore()
    measured = times(store, "seconds")
    for second in (300, 200):
        measured.record_batch(pa.record_batch({"at": [second]}))
    assert store.value("event_time_watermark", "a") == 300_000


def test_each_row_with_an_event_time_is_one_observation_of_the_lag():
    store, now = MetricStore(), int(time.time())
    batch = pa.record_batch({"at": pa.array([now, now - 45, None, now - 7200])})
    times(store, "seconds").record_batch(batch)
    lag = store.value("event_time_lag", "a")
    assert isinstance(lag, Distribution)
    assert lag.count == 3
    assert lag.buckets[-1] == 1, "two hours are above all bounds"
    assert sum(lag.buckets[:8]) == 1
    assert 7_245_000 <= lag.sum < 7_345_000


@pytest.mark.parametrize(
    ("batch", "unit", "reason"),
    [
        (pa.record_batch({"id": [1]}), None, "there is no column 'at'"),
        (pa.record_batch({"at": ["x"]}), None, "the column 'at' has the type string"),
        (pa.record_batch({"at": [1]}), None, "the column 'at' has the type int64"),
    ],
)
def test_a_column_without_event_times_is_one_warning_and_no_series(batch, unit, reason, caplog):
    store = MetricStore()
    measured = times(store, unit)
    measured.record_batch(batch)
    measured.record_batch(batch)
    assert [record.getMessage() for record in caplog.records] == [f"telemetry.event_time is not measured: {reason}"]
    assert store.snapshot() == []
