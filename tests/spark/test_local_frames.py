"""Small frames of rows from Python are evaluated without a Spark job, with the same result."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from streamling.engine.dataflow.arrow_frames import to_frame
from streamling.spark.local_frames import needs_no_job, to_arrow

pytestmark = pytest.mark.spark

ROWS = pa.record_batch(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "name": ["ann", None, "Zoë"],
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2024, 7, 1, 12, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
        "day": pa.array([date(2024, 7, 1), None, None]),
        "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
        "place": pa.array([{"x": 1}, {"x": None}, None], pa.struct({"x": pa.int32()})),
        "raw": pa.array([b"\x00\xff", b"", None], pa.binary()),
    }
)
QUERIES = {
    "all": ["*"],
    "expressions": [
        "id + 1 AS next",
        "upper(name) AS name",
        "price * 2 AS price",
        "size(tags) AS tags",
        "place.x AS x",
    ],
    "wide": ["CAST(price AS DECIMAL(38, 10)) AS price", "at - INTERVAL 1 HOUR AS at", "CAST(id AS TINYINT) AS id"],
}


@pytest.fixture
def session(spark):
    """A session in which rows from Python are part of the plan."""
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "1MB")
    return session


@pytest.fixture
def frame(session):
    return to_frame(session, [ROWS])


def _arrow_memory(spark) -> int:
    """Bytes that Spark's Arrow buffers have allocated in the JVM."""
    return int(spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory())


def _jobs(spark, group, action):
    """The jobs of ``action``, and its result."""
    spark.sparkContext.setJobGroup(group, group)
    result = action()
    return list(spark.sparkContext.statusTracker().getJobIdsForGroup(group)), result


@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_those_of_a_job(spark, frame, name):
    selected = frame.selectExpr(*QUERIES[name])
    jobs, table = _jobs(spark, f"local {name}", lambda: to_arrow(selected))
    assert jobs == []
    assert table.equals(selected.toArrow(), check_metadata=True)
    assert table.num_rows == 3


def test_filters_may_leave_nothing(frame):
    none = frame.filter("id > 7").select("id", "tags")
    assert needs_no_job(none)
    assert to_arrow(none).equals(none.toArrow(), check_metadata=True)
    assert to_arrow(frame.filter("id = 2").select("id")).to_pylist() == [{"id": 2}]


def test_what_spark_has_to_compute_is_a_job(spark, frame):
    grouped = frame.groupBy("name").count()
    assert not needs_no_job(grouped)
    jobs, table = _jobs(spark, "grouped", lambda: to_arrow(grouped))
    assert jobs != []
    assert sorted(table["count"].to_pylist()) == [1, 1, 1]


def test_many_rows_are_a_job(session):
    many = to_frame(session, [pa.record_batch({"id": pa.array(range(10_001), pa.int64())})])
    assert not needs_no_job(many)
    assert to_arrow(many).num_rows == 10_001


def test_an_error_in_an_expression_is_the_one_of_a_job(frame):
    wrong = frame.selectExpr("id / (id - 1) AS x")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        to_arrow(wrong)


def test_the_memory_of_a_result_is_released_with_it(spark, session):
    """Buffers in the JVM have at least 64 KB for each column of numbers: without a release, a few thousand small
    batches fill the direct memory."""
    row = to_frame(session, [ROWS]).selectExpr("id + 1 AS next", "upper(name) AS name")
    before = _arrow_memory(spark)
    for _ in range(50):
        assert to_arrow(row).num_rows == 3
    assert _arrow_memory(spark) == before
