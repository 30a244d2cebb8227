"""Metrics of operators on Spark's executors. They reach the driver in a Spark accumulator, together with the result of
their task, so that a task that fails and runs again is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from streamling.plugins.context import Metrics

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: a method of `Metrics` and its arguments
Call = tuple[str, tuple[Any, ...]]


class ExecutorMetrics:
    """Collects calls in a task; they are made on ``metrics`` in the driver when the task has completed."""

    def __init__(self, context: SparkContext, metrics: Metrics) -> None:
        self._calls: Accumulator[list[Call]] = context.accumulator([], _Replayed(metrics))

    def count(self, name: str, value: int = 1, tags: Mapping[str, str] | None = None) -> None:
        self._calls.add([("count", (name, value, tags))])

    def latency(self, name: str, seconds: float, tags: Mapping[str, str] | None = None) -> None:
        self._calls.add([("latency", (name, seconds, tags))])

    def gauge(self, name: str, value: float, tags: Mapping[str, str] | None = None) -> None:
        self._calls.add([("gauge", (name, value, tags))])

    def remove(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        self._calls.add([("remove", (name, tags))])


class _Replayed(AccumulatorParam["list[Call]"]):
    """Collects calls in a task, makes them in the driver."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics: Metrics | None = metrics

    def __getstate__(self) -> dict[str, Any]:
        return {"_metrics": None}

    def zero(self, value: list[Call]) -> list[Call]:
        return []

    def addInPlace(self, value1: list[Call], value2: list[Call]) -> list[Call]:  # noqa: N802 - Spark calls it so
        if self._metrics is None:
            value1.extend(value2)
        else:
            for method, arguments in value2:
                getattr(self._metrics, method)(*arguments)
        return value1
