"""Counters in plans: what they count, and how they are removed again."""

from __future__ import annotations

import pytest

from streamling.dataflow.row_observation import RowCounter, without_counters

pytestmark = pytest.mark.spark


def test_rows_are_counted_where_the_counter_is_in_the_plan(spark):
    lower = RowCounter.of(spark.range(0, 1000, 1, 3).toDF("id"))
    upper = RowCounter.of(lower.frame.where("id % 10 = 0").selectExpr("id * 2 AS twice"))
    assert upper.frame.count() == 100
    assert (lower.rows(0), upper.rows(0)) == (1000, 100)


def test_the_counter_is_part_of_the_generated_code(spark):
    counter = RowCounter.of(spark.range(10).toDF("id"))
    plan = str(counter.frame.selectExpr("id + 1 AS next")._jdf.queryExecution().executedPlan())
    assert all(line.strip().startswith("*(1)") for line in plan.replace("+- ", "").splitlines() if line.strip())


def test_rows_of_a_frame_without_counters_do_not_count(spark):
    counter = RowCounter.of(spark.range(10).toDF("id"))
    frame = counter.frame.selectExpr("id + 1 AS next")
    assert without_counters(frame).count() == 10
    assert counter.rows(0) == 0
    assert frame.count() == 10
    assert counter.rows(0) == 10


def test_rows_that_the_optimizer_computes_are_not_counted_this_way(spark):
    assert RowCounter.of(spark.createDataFrame([(1,)], "id long").where("id > 0")) is not None
    assert RowCounter.of(spark.sql("SELECT * FROM VALUES (1), (2) AS pairs(id)")) is None
