"""Counts rows inside a Spark plan; the number can be read when the job has finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def row_count() -> Column:
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias("rows")


def keeps_rows(taken: DataFrame, made: DataFrame) -> bool:
    """Return whether ``made`` has one row for each row of ``taken``: all that its plan does is to compute columns."""
    return bool(_plans(taken.sparkSession._jvm).keepsRows(taken._jdf, made._jdf))


def shuffled_rows(spark: SparkSession, execution: Any) -> int:
    """Return the number of rows of the last shuffle of a plan that has run, which Spark counts anyway. 0 if the shuffle
    was skipped because there were no rows."""
    return int(_plans(spark._jvm).shuffledRows(execution))


def report_counts(execution: Any) -> None:
    """Publish the counts of all observations in the plan of a `QueryExecution`. Spark does this at the end of a SQL
    statement, but not for a plan whose rows were requested directly."""
    execution.sparkSession().observationManager().tryComplete(execution)


def _plans(jvm: Any) -> Any:
    return java_class(jvm, "streamling.plan.Plans")
