"""Many small batches that belong to one batch of the source: what each one needs is released with it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

ROWS = 400
PIPELINE = """
sources:
  numbers: {{type: numbers, rows: {rows}, batch: {rows}, primary_key: id}}
transforms:
  doubled: {{type: double, from: numbers, primary_key: id, batch_size: 1}}
  named: {{type: sql, primary_key: id, sql: "SELECT id, upper(name) AS label, double + 1 AS odd FROM doubled"}}
  last: {{type: sql, primary_key: id, sql: "SELECT *, odd * 2 AS twice FROM named WHERE id % 2 = 0"}}
sinks:
  all: {{type: ledger, from: named}}
  even: {{type: ledger, from: last}}
"""


def arrow_memory(spark) -> int:
    """Bytes that Spark's Arrow buffers have allocated in the JVM, outside its heap."""
    return int(spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory())


def next_job(spark) -> int:
    """The number of the next Spark job."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def test_sql_below_many_small_batches_keeps_no_memory(bench, spark):
    bench.run(PIPELINE.format(rows=10))
    before = arrow_memory(spark)
    bench.run(PIPELINE.format(rows=ROWS))
    assert arrow_memory(spark) == before
    assert bench.ids("all") == list(range(ROWS))
    assert bench.ids("even") == list(range(0, ROWS, 2))


def test_sql_below_small_batches_needs_no_job(bench, spark):
    before = next_job(spark)
    bench.run(PIPELINE.format(rows=50))
    assert next_job(spark) == before
    assert bench.ids("all") == list(range(50))
    assert bench.ids("even") == list(range(0, 50, 2))
