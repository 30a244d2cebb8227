"""The blackhole: every row is computed, none is kept."""

import pyarrow as pa
import pytest

from streamling.plugins.testing import Bench
from streamling.sinks.blackhole import BlackholeSink

ROWS = pa.record_batch({"id": [1, 2, 3]})


def test_rows_that_are_in_python_never_go_to_spark():
    bench = Bench(BlackholeSink, {})  # without a session: Spark could not take them
    bench.finish([ROWS])
    assert bench.position == {"given": 1}
    assert bench.run.rows_written() == {"under_test": 3}


@pytest.mark.spark
def test_the_plan_runs_in_full(spark):
    """A division by zero in a row nobody looks at is found all the same."""
    from pyspark.errors import ArithmeticException

    from streamling.config import AppConfig
    from streamling.plugins.context import NodeContext
    from streamling.plugins.nothing import NoMetrics, NoState
    from streamling.sinks.blackhole import BlackholeSinkOptions

    options = BlackholeSinkOptions.model_validate({"type": "blackhole", "from": "x"})
    sink = BlackholeSink(NodeContext("out", options, AppConfig(), NoState("none"), NoMetrics()))
    sink.write_frame(spark.range(100))
    with pytest.raises(ArithmeticException):
        sink.write_frame(spark.range(100).selectExpr("1 / (id - 57)"))
