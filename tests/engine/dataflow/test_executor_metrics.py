"""Metrics of a task on an executor are recorded in the driver."""

from __future__ import annotations

from typing import Any

from pyspark.accumulators import Accumulator

from streamling.engine.dataflow.executor_metrics import ExecutorMetrics
from streamling.observe.telemetry.metrics import MetricStore


class Driver:
    """The part of a Spark context that is used."""

    def accumulator(self, value: list[Any], param: Any) -> Accumulator[list[Any]]:
        return Accumulator(0, value, param)


def test_every_call_reaches_the_metrics_of_the_driver():
    store = MetricStore()
    metrics = ExecutorMetrics(Driver(), store.of("out"))  # type: ignore[arg-type]
    metrics.count("rows_written", 2)
    metrics.gauge("open", 1.0, {"table": "a"})
    metrics.gauge("open", 2.0, {"table": "b"})
    metrics.remove("open", {"table": "a"})
    assert store.value("rows_written", node="out") == 2
    assert store.value("open", node="out", table="a") is None
    assert store.value("open", node="out", table="b") == 2
