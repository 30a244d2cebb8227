"""A streamed source with rows that precede its stream."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.harness.pipelines import Bench, TickStream, eventually, finish

from streamling.connectors.memory import collected_rows
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import DeadLetterOptions, SourceOptions
from streamling.plugins.rejects import REJECT_COLUMN
from streamling.plugins.sources import END, SourceBatch, SparkRead, Wait
from streamling.plugins.streams import StreamBatch, StreamedSource

pytestmark = pytest.mark.spark

#: first value of the stream
LIVE = 1_000_000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("_gs_op", pa.string(), nullable=False)])

PIPELINE = """
sources: {rows: {type: history, primary_key: id, OPTIONS}}
transforms: {shaped: {type: sql, primary_key: id, sql: "SELECT id, id + 1 AS next, _gs_op FROM rows"}}
sinks:
  out: {type: ledger, from: shaped}
  plain: {type: ledger, from: rows}
"""
#: the SQL and the sink are one plan with the rows of the stream
FUSED = """
sources: {rows: {type: history, primary_key: id, OPTIONS}}
transforms: {shaped: {type: sql, primary_key: id, sql: "SELECT id, id + 1 AS next, _gs_op FROM rows"}}
sinks: {out: {type: blackhole, from: shaped}}
"""


class HistoryOptions(DeadLetterOptions, SourceOptions):
    rows: int = 20
    batch: int = 10
    pause: float = 0.0
    job: bool = False
    by_spark: bool = False


class HistorySource(StreamedSource[HistoryOptions]):
    """Numbers from 0 on, then a stream; a negative number is rejected in both."""

    Options = HistoryOptions

    @property
    def bounded(self) -> bool:
        return self.options.job

    @property
    def always_drains(self) -> bool:
        return True

    def schema(self) -> pa.Schema:
        return SCHEMA

    def backfill(self, spark, position):
        at = position.get("rows", 0)
        if position.get("stream") is not None or at >= self.options.rows:
            return END
        time.sleep(self.options.pause)
        ids = range(at, min(at + self.options.batch, self.options.rows))
        after = {"rows": ids[-1] + 1}
        if self.options.errors is not None:
            self.context.reject(pa.record_batch({"id": [at]}), "first of its batch")
            ids = ids[1:]
        if self.options.by_spark:
            frame = lambda spark: spark.range(ids[0], ids[-1] + 1)  # noqa: E731
            return SourceBatch(SparkRead(frame, len(ids)), after)
        rows = pa.record_batch({"id": pa.array(ids, pa.int64()), "_gs_op": ["i"] * len(ids)}, schema=SCHEMA)
        return SourceBatch(rows, after)

    def stream(self, spark, position):
        assert position["rows"] == self.options.rows
        return LiveStream(self, position)

    def frame(self, spark, first, last):
        from pyspark.sql import functions as f

        rows = spark.range(first, last, numPartitions=1).select((f.col("id") + LIVE).alias("id"))
        if self.options.errors is None:
            return rows
        rejected = f.struct(f.lit("odd").alias("error"), f.lit("p").alias("position"), f.lit("{}").alias("payload"))
        return rows.withColumn("_gs_op", f.lit("i")).withColumn(REJECT_COLUMN, f.when(f.col("id") % 2 == 1, rejected))


class LiveStream(TickStream):
    """Five rows every tenth of a second."""

    def __init__(self, source, position) -> None:
        super().__init__(source, {"rows": position.get("stream", 0)}, 5, 0.1)
        self.position = position

    def next(self):
        batch = super().next()
        if not isinstance(batch, StreamBatch):
            return batch
        return replace(batch, position={**self.position, "stream": batch.position["rows"]})


@pytest.fixture
def bench(spark) -> Bench:
    class WithHistory(Bench):
        def registry(self):
            registry = super().registry()
            registry.register(NodeKind.SOURCE, "history", HistorySource)
            return registry

    return WithHistory(spark)


def stop(run) -> None:
    run.stop("enough")
    finish(run)


@pytest.mark.parametrize("options", ["rows: 25", "rows: 25, by_spark: true"])
def test_the_stream_begins_when_all_rows_before_it_are_delivered(bench, options) -> None:
    run = bench.start(PIPELINE.replace("OPTIONS", options))
    eventually(lambda: any(id >= LIVE for id in bench.ids("out")), 60)
    stop(run)
    for sink in ("out", "plain"):
        assert bench.ids(sink)[:25] == list(range(25))
        live = bench.ids(sink)[25:]
        assert live == list(range(LIVE, LIVE + len(live)))
    assert all(row["next"] == row["id"] + 1 and row["_gs_op"] == "i" for row in bench.books["out"])
    assert bench.state.get("rows") == 25
    assert (run.status().rows_in or 0) >= 25


def test_rows_go_through_the_nodes_that_stay_in_spark(bench) -> None:
    run = bench.start(FUSED.replace("OPTIONS", "rows: 25"), count_in_spark=True)
    eventually(lambda: run.rows_written().get("out", 0) > 25, 60)
    stop(run)
    written = run.rows_written()["out"]
    counted = {name: run.metrics.value("output_rows", name) for name in ("rows", "shaped", "out")}
    assert counted == dict.fromkeys(counted, written)


def test_a_stop_before_the_stream_stores_the_position_and_the_next_run_continues(bench) -> None:
    """Also with `drain_policy: fast`, if the source asks for it."""
    text = PIPELINE.replace("OPTIONS", "rows: 1000, pause: 0.02")
    run = bench.start(text, drain_policy="fast", checkpoint_interval_sec=60)
    eventually(lambda: (run.status().rows_in or 0) > 50)
    stop(run)
    at = bench.state.get("rows")
    assert bench.ids("out") == list(range(at))
    assert 50 < at < 1000
    run = bench.start(text.replace("0.02", "0"))
    eventually(lambda: any(id >= LIVE for id in bench.ids("out")), 60)
    stop(run)
    assert bench.ids("out")[:1001] == [*range(1000), LIVE]


def test_checkpoints_are_made_between_the_batches(bench) -> None:
    run = bench.start(PIPELINE.replace("OPTIONS", "rows: 100000, pause: 0.02"), checkpoint_interval_sec=0.05)
    seen: set[int] = set()

    def moved() -> bool:
        seen.add(bench.state.get("rows"))
        return len(seen) > 3

    eventually(moved)
    stop(run)


def test_a_bounded_source_ends_before_its_stream(bench, caplog) -> None:
    caplog.set_level(logging.INFO)
    text = PIPELINE.replace("OPTIONS", "rows: 25, job: true")
    bench.run(text)
    assert bench.ids("out") == list(range(25))
    assert "nothing new" not in caplog.text
    bench.run(text)
    assert bench.ids("out") == list(range(25))
    assert "history source 'rows': nothing new to read, earlier runs have read everything" in caplog.text


def test_a_source_may_have_nothing_to_deliver_for_a_while(bench, monkeypatch) -> None:
    asked: list[float] = []

    def backfill(self, spark, position):
        asked.append(time.monotonic())
        return Wait(0.02) if len(asked) < 5 else original(self, spark, position)

    original = HistorySource.backfill
    monkeypatch.setattr(HistorySource, "backfill", backfill)
    bench.run(PIPELINE.replace("OPTIONS", "rows: 25, job: true"))
    assert bench.ids("out") == list(range(25))


def test_rejected_rows_of_both_parts_go_to_the_dead_letter_sink(bench) -> None:
    text = PIPELINE.replace("OPTIONS", "errors: {to: bad}") + "  bad: {type: memory}\n"
    run = bench.start(text)
    eventually(lambda: any(id >= LIVE + 10 for id in bench.ids("out")), 60)
    stop(run)
    assert bench.ids("out")[:18] == [*range(1, 10), *range(11, 20)]
    assert all(id % 2 == 0 for id in bench.ids("out")[18:])
    errors = collected_rows(run, "bad").column("error").to_pylist()
    assert errors[:2] == ["first of its batch"] * 2
    assert set(errors[2:]) == {"odd"}


LOOKUP = """
sources:
  keys: {type: numbers, rows: 30, batch: 1, pause: 0.02, primary_key: id}
  rows: {type: history, primary_key: id, rows: 30}
transforms:
  known: {type: dynamic_table, backend_type: InMemory, backend_entity_name: known, sql: SELECT name FROM keys}
  found: {type: sql, primary_key: id, sql: "SELECT * FROM rows WHERE dynamic_table_check('known', 'n' || id::TEXT)"}
sinks:
  out: {type: ledger, from: found}
  rest: {type: blackhole, from: keys}
"""


def test_rows_wait_until_the_tables_that_they_query_are_filled(bench) -> None:
    run = bench.start(LOOKUP)
    eventually(lambda: len(bench.ids("out")) == 30, 60)
    stop(run)
    assert bench.ids("out") == list(range(30))
