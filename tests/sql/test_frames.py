"""A statement over the frames of many batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from streamling.sql.frames import SparkStatement
from streamling.sql.statement import Statement

pytestmark = pytest.mark.spark


def batches(spark: SparkSession, sql: str, *frames: DataFrame) -> Iterator[DataFrame]:
    statement = SparkStatement("node", Statement(sql))
    return (statement.apply(spark, {"t": frame}) for frame in frames)


def column_ids(frame: DataFrame) -> str:
    """What identifies the output columns of an analysed plan: each analysis assigns new numbers."""
    return str(frame._jdf.queryExecution().analyzed().output())


def values(frame: DataFrame) -> list[list[object]]:
    return [list(row) for row in frame.collect()]


def test_spark_analyses_a_statement_once(spark):
    frames = (spark.range(3).selectExpr("id", f"'{name}' AS name") for name in "ab")
    first, second = batches(spark, "SELECT id + 1 AS next, name || '!' AS name FROM t WHERE id > 0", *frames)
    assert column_ids(first) == column_ids(second)
    assert values(first) == [[2, "a!"], [3, "a!"]]
    assert values(second) == [[2, "b!"], [3, "b!"]]


def test_a_batch_with_other_columns_is_analysed_again(spark):
    numbers, texts = spark.range(2).toDF("v"), spark.sql("SELECT 'a' AS v, 1 AS w")
    assert [values(batch) for batch in batches(spark, "SELECT *, 7 AS x FROM t", numbers, texts, numbers)] == [
        [[0, 7], [1, 7]],
        [["a", 1, 7]],
        [[0, 7], [1, 7]],
    ]


def test_a_batch_with_nulls_after_one_that_cannot_have_any(spark):
    never, maybe = spark.sql("SELECT 1 AS v"), spark.sql("SELECT if(rand() < 2, NULL, 1) AS v")
    sql = "SELECT coalesce(w, -1) AS w FROM (SELECT v * 2 AS w FROM t)"
    assert [values(batch) for batch in batches(spark, sql, never, maybe)] == [[[2]], [[-1]]]


def test_random_numbers_differ_from_batch_to_batch(spark):
    frame = spark.range(1).toDF("id")
    first, second = batches(spark, "SELECT random() AS number, uuid() AS name FROM t", frame, frame)
    assert values(first)[0][0] != values(second)[0][0]
    assert values(first)[0][1] != values(second)[0][1]


def test_the_time_is_that_of_the_batch(spark):
    frame = spark.range(1).toDF("id")
    first, second = (values(batch) for batch in batches(spark, "SELECT now() AS at FROM t", frame, frame))
    assert first < second


def test_the_same_input_twice(spark):
    sql = "SELECT id FROM t WHERE id = 0 UNION ALL SELECT id * 10 FROM t WHERE id = 1"
    frames = [spark.range(2).toDF("id"), spark.range(1, 2).toDF("id")]
    assert [values(batch) for batch in batches(spark, sql, *frames)] == [[[0], [10]], [[10]]]
