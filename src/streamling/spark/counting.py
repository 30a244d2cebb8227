"""Rows that Spark counts on their way through a plan that we run: the number can be read when the job is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NAME = "streamling_rows"


def row_count() -> Column:
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias("rows")


def shuffled_rows(execution: Any) -> int:
    """The rows of the last shuffle of a plan that has run: Spark has counted them anyway. 0 where it was left out
    because there were no rows."""
    plan = execution.executedPlan()
    while (name := plan.nodeName()) != "Exchange":
        if name == "AdaptiveSparkPlan":
            plan = plan.executedPlan()
        elif name.endswith("QueryStage"):
            plan = plan.plan()
        elif plan.children().isEmpty():
            return 0
        else:
            plan = plan.collectLeaves().head()
    return int(plan.metrics().apply("shuffleRecordsWritten").value())


def counted(frame: DataFrame) -> DataFrame:
    """``frame`` with a counter in its plan; up to 0.25 µs per row, as it ends a stretch of generated code."""
    return frame.observe(_NAME, row_count())


def report_counts(execution: Any) -> None:
    """Tell everybody who observes rows in the plan of a `QueryExecution` what was counted. Spark does so at the end of
    a SQL statement, not for a plan whose rows were asked for directly."""
    execution.sparkSession().observationManager().tryComplete(execution)


def read_count(execution: Any, name: str = _NAME) -> int:
    """What the counter in a `QueryExecution` has counted. 0 when it did not have to compute the rows, such as those
    above ``WHERE false``."""
    found = execution.observedMetrics().get(name)
    return int(found.get().getLong(0)) if found.isDefined() else 0
