"""Many small batches that belong to one batch of the source: what each one needs is released with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.harness.endpoint import echo, endpoint

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


@contextmanager
def peak_of_arrow_memory(spark) -> Iterator[list[int]]:
    """How much more was allocated at once inside the block than before it."""
    before, peak, has_ended = arrow_memory(spark), [0], threading.Event()

    def sample() -> None:
        while not has_ended.wait(0.005):
            peak[0] = max(peak[0], arrow_memory(spark) - before)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        has_ended.set()
        sampler.join()


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


#: what makes many small batches of one batch of the source, and the SQL below
SMALL_BATCHES = {
    "plugin": """
  small: {type: double, from: numbers, primary_key: id, batch_size: 1}
  named: {type: sql, primary_key: id, sql: "SELECT id, upper(name) AS label FROM small"}""",
    "script": """
  small: {type: script, from: numbers, primary_key: id, batch_size: 1, language: js, script: "row => row"}
  named: {type: sql, primary_key: id, sql: "SELECT id, upper(name) AS label FROM small"}""",
    "handler": """
  small: {type: handler, from: numbers, primary_key: id, url: "URL", batch_size: 1}
  named: {type: sql, primary_key: id, sql: "SELECT id, upper(name) AS label FROM small"}""",
    "dynamic table": """
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: "SELECT name AS value FROM small"}
  small: {type: double, from: numbers, primary_key: id, batch_size: 1}
  named:
    {type: sql, primary_key: id,
     sql: "SELECT id, upper(name) AS label FROM small WHERE NOT dynamic_table_check('seen', name)"}""",
    "dead letters": """
  small:
    {type: script, from: numbers, primary_key: id, batch_size: 1, language: js, errors: {to: rejected},
     script: "row => { if (row.id % 2) throw new Error('odd'); return row }"}
  named: {type: sql, primary_key: id, sql: "SELECT id, upper(name) AS label FROM small"}""",
}
#: results that reach SQL; each of them keeps about 130 KB if it is not released
RESULTS = 200


@pytest.mark.parametrize("kind", SMALL_BATCHES)
def test_memory_is_bounded_whatever_makes_small_batches(bench, spark, monkeypatch, kind):
    # otherwise so few results would reach SQL that it would not matter whether they are released
    monkeypatch.setattr("streamling.engine.dataflow.work.JOINED_ROWS", 1)
    has_dead_letters = kind == "dead letters"
    rows = 2 * RESULTS if has_dead_letters else RESULTS
    rejected = "  rejected: {type: ledger}" if has_dead_letters else ""
    sources = f"sources:\n  numbers: {{type: numbers, rows: {rows}, batch: {rows}, primary_key: id}}\n"
    with endpoint(echo) as server:
        transforms = f"transforms:{SMALL_BATCHES[kind].replace('URL', server.url)}\n"
        text = f"{sources}{transforms}sinks:\n  all: {{type: ledger, from: named}}\n{rejected}\n"
        with peak_of_arrow_memory(spark) as peak:
            run = bench.run(text)
    assert bench.ids("all") == list(range(0, rows, 2 if has_dead_letters else 1))
    if has_dead_letters:
        assert [json.loads(row["payload"])["id"] for row in bench.books["rejected"]] == list(range(1, rows, 2))
    assert run.operators("all")[0].calls == [1] * RESULTS
    assert peak[0] < 16 << 20
