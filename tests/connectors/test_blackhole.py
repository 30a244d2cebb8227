"""The blackhole: every row is computed, none is kept."""

import pyarrow as pa
import pytest

from streamling.connectors.blackhole import BlackholeSink
from streamling.testing import PipelineHarness

ROWS = pa.record_batch({"id": [1, 2, 3]})


def test_rows_that_are_in_python_never_go_to_spark():
    bench = PipelineHarness(BlackholeSink, {})  # without a session: Spark could not take them
    bench.finish([ROWS])
    assert bench.position == {"given": 1}
    assert bench.run.rows_written() == {"under_test": 3}


@pytest.fixture
def sink():
    from streamling.config import AppConfig
    from streamling.connectors.blackhole import BlackholeSinkOptions
    from streamling.plugins.context import NodeContext
    from streamling.plugins.placeholders import NoopMetrics, UnavailableState

    options = BlackholeSinkOptions.model_validate({"type": "blackhole", "from": "x"})
    return BlackholeSink(NodeContext("out", options, AppConfig(), UnavailableState("none"), NoopMetrics()))


def as_micro_batch(frame):
    """As Structured Streaming hands it over: the rows of a plan, not the plan."""
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    rows = frame._jdf.queryExecution().toRdd()
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), session)


@pytest.mark.spark
@pytest.mark.parametrize("form", [lambda frame: frame, as_micro_batch])
def test_the_plan_runs_in_full(spark, sink, form):
    """A division by zero in a row nobody looks at is found all the same."""
    sink.write_frame(form(spark.range(100)))
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sink.write_frame(form(spark.range(100).selectExpr("1 / (id - 57)")))


@pytest.mark.spark
def test_rows_that_are_kept_for_others_are_not_computed_apart_from_them(spark, sink):
    frame = as_micro_batch(spark.range(100).selectExpr("id + 1 AS id")).persist()
    try:
        sink.write_frame(frame)
        kept = spark.sparkContext._jsc.sc().getRDDStorageInfo()
        assert sum(one.numCachedPartitions() for one in kept) > 0
    finally:
        frame.unpersist(blocking=True)
