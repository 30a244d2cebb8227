"""Rows that a streaming query counts inside its plan, reported once per micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from streamling.spark.counting import read_count, row_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class QueryCounts:
    """The counters of one query."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Callable[[int], None], ...]] = {}
        self._query: Future[StreamingQuery] = Future()

    def observe(self, frame: DataFrame, *report: Callable[[int], None]) -> DataFrame:
        """``frame`` with a counter in it."""
        name = f"rows_{len(self._listeners)}"
        self._listeners[name] = report
        return frame.observe(name, row_count())

    def started(self, query: StreamingQuery) -> None:
        self._query.set_result(query)

    def report(self) -> None:
        """Report the counts. Called at the end of a batch: Spark itself reports later, and not at all if the query is
        stopped."""
        if self._listeners:
            plan: Any = self._query.result()._jsq.streamingQuery().lastExecution()
            for name, listeners in self._listeners.items():
                rows = read_count(plan, name)
                for listener in listeners:
                    listener(rows)
