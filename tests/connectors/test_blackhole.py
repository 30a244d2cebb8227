"""The blackhole sink: computes every row and keeps none."""

import json

import pyarrow as pa
import pytest

from streamling.connectors.blackhole import BlackholeSink
from streamling.testing import PipelineHarness
from tests.harness.pipelines import Bench

ROWS = pa.record_batch({"id": [1, 2, 3]})


def test_rows_in_python_are_not_sent_to_spark():
    bench = PipelineHarness(BlackholeSink, {})  # without a session, so Spark could not process them
    bench.finish([ROWS])
    assert bench.position == {"given": 1}
    assert bench.run.rows_written() == {"under_test": 3}


@pytest.fixture
def sink():
    from streamling.connectors.blackhole import BlackholeSinkOptions
    from streamling.pipeline.config import AppConfig
    from streamling.plugins.context import NodeContext
    from streamling.plugins.placeholders import NoopMetrics, UnavailableState

    options = BlackholeSinkOptions.model_validate({"type": "blackhole", "from": "x"})
    return BlackholeSink(NodeContext("out", options, AppConfig(), UnavailableState("none"), NoopMetrics()))


@pytest.mark.spark
def test_the_plan_runs_in_full(spark, sink):
    """A division by zero in an unused row is still found."""
    sink.write_frame(spark.range(100))
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sink.write_frame(spark.range(100).selectExpr("1 / (id - 57)"))


@pytest.mark.spark
@pytest.mark.parametrize("rows", [1, 250])
def test_rows_that_stay_in_spark_are_counted(spark, tmp_path, rows):
    (tmp_path / "numbers.csv").write_text("".join(["id\n", *(f"{id}\n" for id in range(rows))]))
    nodes = {
        "sources": {"numbers": {"type": "file", "path": str(tmp_path), "format": "csv", "mode": {"type": "bounded"}}},
        "sinks": {"out": {"type": "blackhole", "from": "numbers"}},
    }
    run = Bench(spark).run(json.dumps(nodes))
    assert run.rows_written() == {"out": rows}
    assert run.metrics.value("output_rows", "out") == rows


@pytest.mark.spark
def test_cached_rows_are_not_computed_again(spark, sink):
    frame = spark.range(100).selectExpr("id + 1 AS id").persist()
    try:
        sink.write_frame(frame)
        kept = spark.sparkContext._jsc.sc().getRDDStorageInfo()
        assert sum(one.numCachedPartitions() for one in kept) > 0
    finally:
        frame.unpersist(blocking=True)
