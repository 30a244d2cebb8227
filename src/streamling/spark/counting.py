"""Counts rows inside a Spark plan; the number can be read when the job has finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: operators with as many rows as their input
_KEEPING = {"Project", "RepartitionByExpression", "SubqueryAlias", "View"}


def row_count() -> Column:
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias("rows")


def keeps_rows(taken: DataFrame, made: DataFrame) -> bool:
    """Whether ``made`` has one row for each row of ``taken``: all that its plan does is to compute columns."""
    below: Any = taken._jdf.queryExecution().analyzed()
    plan: Any = made._jdf.queryExecution().analyzed()
    while not plan.fastEquals(below):
        if plan.nodeName() not in _KEEPING:
            return False
        plan = plan.children().head()
    return True


def shuffled_rows(execution: Any) -> int:
    """Return the number of rows of the last shuffle of a plan that has run, which Spark counts anyway. 0 if the shuffle
    was skipped because there were no rows."""
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


def report_counts(execution: Any) -> None:
    """Publish the counts of all observations in the plan of a `QueryExecution`. Spark does this at the end of a SQL
    statement, but not for a plan whose rows were requested directly."""
    execution.sparkSession().observationManager().tryComplete(execution)
