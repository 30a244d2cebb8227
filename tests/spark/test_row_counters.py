"""Counters in plans."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import functions as f

from streamling.spark.row_counters import GroupCounter, RowObservation, count_rows

pytestmark = pytest.mark.spark


def test_rows_are_counted_where_the_counter_is_in_the_plan(spark):
    lower = count_rows(spark.range(0, 1000, 1, 3).toDF("id"))
    upper = count_rows(lower.frame.where("id % 10 = 0").selectExpr("id * 2 AS twice"))
    assert upper.frame.count() == 100
    assert (lower.rows(), upper.rows()) == (1000, 100)


def test_the_counter_is_part_of_the_generated_code(spark):
    counter = count_rows(spark.range(10).toDF("id"))
    plan = str(counter.frame.selectExpr("id + 1 AS next")._jdf.queryExecution().executedPlan())
    assert all(line.strip().startswith("*(1)") for line in plan.replace("+- ", "").splitlines() if line.strip())


def test_rows_count_once_however_many_jobs_compute_them(spark):
    counter = count_rows(spark.range(0, 1000, 1, 4).toDF("id"))
    assert len(counter.frame.take(3)) == 3
    assert counter.frame.count() == 1000
    assert counter.frame.coalesce(4).count() == 1000
    assert len(counter.frame.limit(1).collect()) == 1
    assert counter.rows() == 1000


def test_rows_above_a_shuffle_are_counted(spark):
    counter = count_rows(spark.range(1000).toDF("id").repartition(3, "id"))
    assert counter.frame.groupBy(f.expr("id % 7")).count().count() == 7
    assert counter.rows() == 1000


KINDS = "CASE id % 5 WHEN 0 THEN 'u' WHEN 1 THEN 'd' WHEN 2 THEN 'other' WHEN 3 THEN 'i' END AS kind"


def test_rows_are_counted_in_groups(spark):
    counter = GroupCounter.of(spark.range(0, 100, 1, 3).selectExpr("id", KINDS), "iud", "kind", unless="reason")
    assert counter.frame.columns == ["id", "kind"]
    assert counter.frame.count() == 100  # also those in no group
    assert counter.counts() == [20, 20, 20]


def test_rows_with_a_reason_are_in_no_group(spark):
    reason = "IF(id % 5 = 3 AND id < 50, 'not valid', NULL) AS reason"
    frame = spark.range(0, 100, 1, 3).selectExpr("id", KINDS, reason)
    counter = GroupCounter.of(frame, "iud", "kind", unless="reason")
    assert counter.frame.count() == 100
    assert counter.counts() == [10, 20, 20]


def test_rows_in_groups_need_no_second_counter(spark):
    frame = spark.range(0, 100, 1, 3).selectExpr("id", KINDS)
    groups = GroupCounter.of(frame, "iud", "kind", unless="reason")
    counter = count_rows(groups.frame)
    assert _counters_in(counter.frame) == 1
    assert counter.frame.count() == 100
    assert (counter.rows(), groups.counts()) == (100, [20, 20, 20])


def test_rows_that_are_dropped_after_the_groups_are_not_counted(spark):
    frame = spark.range(0, 100, 1, 3).selectExpr("id", KINDS)
    groups = GroupCounter.of(frame, "iud", "kind", unless="reason")
    counter = count_rows(groups.frame.where("id % 2 = 0").select("id", "kind"))
    assert _counters_in(counter.frame) == 2
    assert counter.frame.count() == 50
    assert (counter.rows(), groups.counts()) == (50, [20, 20, 20])


def _counters_in(frame) -> int:
    plan = frame._jdf.queryExecution().analyzed().toString()
    return len(set(re.findall(r"streamling\.plan\.RowCounter@\w+", plan)))


def test_there_are_no_groups_without_their_column(spark):
    assert GroupCounter.of(spark.range(10).toDF("id"), "iud", "kind", unless="reason") is None


def test_rows_that_the_optimizer_computes_are_observed(spark):
    assert not isinstance(count_rows(spark.createDataFrame([(1,)], "id long").where("id > 0")), RowObservation)
    counter = count_rows(spark.sql("SELECT * FROM VALUES (1), (2) AS pairs(id)"))
    assert isinstance(counter, RowObservation)
    assert counter.frame.count() == 2
    assert counter.rows() == 2
