"""A streamed source whose stream has to be replaced by another one."""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.harness.pipelines import Bench, TickSource, eventually, finish

from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SinkOptions
from streamling.plugins.sinks import FrameSink
from streamling.plugins.streams import StreamRestart

pytestmark = pytest.mark.spark

_PIPELINE = """
sources: {rows: {type: breaking, per_second: 50}}
transforms: {}
sinks: {out: {type: memory, from: rows}}
"""


class BreakingSource(TickSource):
    """Fails as often as ``failures`` says, each time with its error."""

    failures: list[StreamlingError]
    refusals: list[StreamlingError]
    starts: list[dict]

    def stream(self, spark, position):
        self.starts.append(dict(position))
        if self.refusals:
            raise self.refusals.pop(0)
        return super().stream(spark, position)

    def frame(self, spark, first, last):
        from pyspark.sql import functions as f

        frame = super().frame(spark, first, last)
        breaks = f.raise_error(f.lit("broken")).cast("bigint")
        broken = f.when(f.col("value") == 20, breaks).otherwise(f.col("value"))
        return frame.withColumn("value", broken) if self.failures else frame

    def translate_error(self, error):
        return self.failures.pop(0) if "broken" in str(error) and self.failures else None


def _bench(spark, *failures: StreamlingError, refusals: tuple[StreamlingError, ...] = ()) -> tuple[Bench, type]:
    class Source(BreakingSource):
        pass

    Source.failures, Source.refusals, Source.starts = list(failures), list(refusals), []

    class WithSource(Bench):
        def registry(self):
            registry = super().registry()
            registry.register(NodeKind.SOURCE, "breaking", Source)
            return registry

    return WithSource(spark), Source


def _rows(run) -> int:
    return sum(run.rows_written().values())


def test_the_source_is_called_again_from_the_position_reached(spark) -> None:
    bench, source = _bench(spark, StreamRestart("outdated"))
    run = bench.start(_PIPELINE)
    eventually(lambda: len(source.starts) == 2 and _rows(run) > 25, 60)
    run.stop("enough")
    finish(run)
    assert source.starts == [{}, {"rows": 20}]


def test_a_stream_that_may_work_later_is_retried_and_logged(spark, caplog) -> None:
    bench, source = _bench(spark, StreamRestart("unavailable", retriable=True))
    run = bench.start(_PIPELINE)
    eventually(lambda: len(source.starts) == 2 and _rows(run) > 25, 60)
    run.stop("enough")
    finish(run)
    assert "breaking source 'rows': unavailable; attempt 1, retrying" in caplog.text


def test_a_source_that_cannot_begin_yet_is_waited_for(spark) -> None:
    bench, source = _bench(spark, refusals=(StreamlingError.transient("no answer"), StreamlingError.transient("no")))
    run = bench.start(_PIPELINE)
    eventually(lambda: len(source.starts) == 3 and _rows(run) > 0, 60)
    run.stop("enough")
    finish(run)


def test_an_error_of_any_other_kind_ends_the_pipeline(spark) -> None:
    bench, source = _bench(spark, StreamlingError.user("no good"))
    run = bench.start(_PIPELINE)
    with pytest.raises(StreamlingError, match="breaking source 'rows': no good"):
        finish(run)
    assert len(source.starts) == 1


def test_a_pipeline_that_waits_for_its_source_can_be_stopped(spark) -> None:
    bench, source = _bench(spark, refusals=tuple(StreamlingError.transient("no answer") for _ in range(1000)))
    run = bench.start(_PIPELINE)
    eventually(lambda: len(source.starts) >= 3, 60)
    run.stop("enough")
    finish(run)
    assert _rows(run) == 0


class PreparingSink(FrameSink[SinkOptions]):
    """Notes how often it is asked for its part of the plan, and what it is given to write."""

    Options = SinkOptions
    prepared: list[str]
    written: list[list[str]]

    def prepare(self, frame):
        self.prepared.append(self.context.name)
        return frame.withColumn("seen", frame.value + 1)

    def write_frame(self, frame):
        self.written.append(frame.columns)
        assert all(row.seen == row.value + 1 for row in frame.collect())


def _preparing(spark) -> tuple[Bench, type]:
    class Sink(PreparingSink):
        prepared, written = [], []

    class WithSink(Bench):
        def registry(self):
            registry = super().registry()
            registry.register(NodeKind.SINK, "preparing", Sink)
            return registry

    return WithSink(spark), Sink


def test_what_a_sink_does_to_its_rows_is_part_of_the_plan_of_each_batch(spark) -> None:
    bench, sink = _preparing(spark)
    run = bench.start("""
        sources: {rows: {type: flood}}
        transforms: {more: {type: sql, primary_key: value, sql: SELECT value FROM rows}}
        sinks: {out: {type: preparing, from: more}}
    """)
    eventually(lambda: len(sink.written) > 3, 60)
    run.stop("enough")
    finish(run)
    assert len(sink.prepared) == len(sink.written)
    assert sink.written[0] == ["value", "_gs_op", "seen"]


def test_what_sinks_do_to_rows_they_share_happens_to_each_batch(spark) -> None:
    bench, sink = _preparing(spark)
    run = bench.start("""
        sources: {rows: {type: flood}}
        transforms: {}
        sinks: {one: {type: preparing, from: rows}, two: {type: preparing, from: rows}}
    """)
    eventually(lambda: len(sink.written) >= 4, 60)
    run.stop("enough")
    finish(run)
    assert sink.prepared[:4] == ["one", "two", "one", "two"]


def test_a_blackhole_computes_every_row_of_a_stream(spark) -> None:
    bench, source = _bench(spark, StreamlingError.user("no good"))
    run = bench.start(_PIPELINE.replace("memory", "blackhole"))
    with pytest.raises(StreamlingError, match="breaking source 'rows': no good"):
        finish(run)
    assert len(source.starts) == 1


class WaitingSource(TickSource):
    """Has nothing to read until the test lets it continue, and then starts at its own position."""

    made: list[WaitingSource]
    starts: list[dict]
    goes: bool

    def __init__(self, context):
        super().__init__(context)
        self.made.append(self)

    def stream(self, spark, position):
        self.starts.append(dict(position))
        return super().stream(spark, {"elsewhere": 7}) if self.goes else None


def test_checkpoints_continue_while_a_source_has_nothing_to_read(spark) -> None:
    made: list[WaitingSource] = []

    class Source(WaitingSource):
        starts: ClassVar[list[dict]] = []
        goes = False

    Source.made = made

    class WithSource(Bench):
        def registry(self):
            registry = super().registry()
            registry.register(NodeKind.SOURCE, "breaking", Source)
            return registry

    bench = WithSource(spark)
    run = bench.start(_PIPELINE)
    eventually(lambda: len(Source.starts) == 1)
    assert made[0].context.checkpoint(20)
    Source.goes = True
    assert made[0].context.restart_stream(5)
    eventually(lambda: _rows(run) > 25, 60)
    eventually(lambda: bench.state.get("elsewhere") == 7)
    run.stop("enough")
    finish(run)
    assert _rows(run) > 25
