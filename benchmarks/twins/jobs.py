"""The steady-state jobs in plain PySpark, on an existing session."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, folder: str, format: str, schema: str) -> DataFrame:
    reader = spark.read.schema(schema)
    return reader.option("header", "true").csv(folder) if format == "csv" else reader.parquet(folder)


def files_to_nowhere(
    spark: SparkSession, folder: str, format: str, schema: str, columns: Sequence[str], condition: str
) -> None:
    """Files → SQL → Spark's noop writer."""
    orders = read(spark, folder, format, schema)
    orders.where(condition).selectExpr(*columns).write.format("noop").mode("overwrite").save()


def files_to_arrow(
    spark: SparkSession, folder: str, format: str, schema: str, columns: Sequence[str], condition: str
) -> int:
    """Return files → SQL → an Arrow table in Python."""
    orders = read(spark, folder, format, schema)
    return int(orders.where(condition).selectExpr(*columns).toArrow().num_rows)


def rate_to_nowhere(
    spark: SparkSession, rows: int, batches: int, columns: Sequence[str], condition: str
) -> list[float]:
    """Return a stream of ``batches`` × ``rows`` rows → SQL → noop; the start times of the batches in seconds."""
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    query = ticks.where(condition).selectExpr(*columns).writeStream.format("noop")
    with tempfile.TemporaryDirectory() as folder:
        running = query.option("checkpointLocation", folder).start()
        while (last := running.lastProgress) is None or last["batchId"] < batches:
            time.sleep(0.1)
        progress = running.recentProgress
        running.stop()
    return [datetime.fromisoformat(one["timestamp"]).timestamp() for one in progress]


def trigger_to_arrow(spark: SparkSession, rows: int, triggers: int) -> list[float]:
    """Return a stream of small batches, each collected to Python; the times of their arrival in seconds."""
    moments: list[float] = []

    def take(batch: DataFrame, number: int) -> None:
        batch.toArrow()
        moments.append(time.monotonic())

    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    with tempfile.TemporaryDirectory() as folder:
        query = ticks.writeStream.foreachBatch(take).option("checkpointLocation", folder).start()
        while len(moments) <= triggers and query.isActive:
            time.sleep(0.05)
        query.stop()
    return moments
