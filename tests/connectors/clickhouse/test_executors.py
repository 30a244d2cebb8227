"""Reading on a cluster: pages that Spark's workers fetch."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.clickhouse.source import ClickHouseSource
from streamling.dev.services.clickhouse import LocalClickHouse
from streamling.errors import StreamlingError
from streamling.plugins.sources import End, SourceBatch, SparkRead
from streamling.types.spark import to_arrow_schema
from tests.connectors.clickhouse.driver import Database
from tests.connectors.clickhouse.source_driver import STATE_KEY, SourceDriver
from tests.harness.clickhouse import clear_faults, inject_fault
from tests.types.physical import from_physical

pytestmark = [pytest.mark.services, pytest.mark.spark]


@pytest.fixture
def driver(database: Database, clickhouse: Any) -> Iterator[SourceDriver]:
    yield SourceDriver(database)
    if isinstance(clickhouse, LocalClickHouse):
        clear_faults(clickhouse)


def cluster_source(driver: SourceDriver, **fields: Any) -> ClickHouseSource:
    config = {"spark": {"master": "spark://elsewhere:7077"}, **fields.pop("config", {})}
    source = driver.source(config=config, **fields)
    source.schema()
    return source


def frames(source: ClickHouseSource, spark: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The DataFrames of a source with the position after each of them."""
    position = source.restore()
    while not isinstance(batch := source.read(position), End):
        assert isinstance(batch, SourceBatch)
        position = batch.position
        if isinstance(batch.rows, SparkRead):
            yield batch.rows.frame(spark), dict(position)


def test_pages_are_partitions_in_the_order_of_the_key(driver: SourceDriver, spark: Any) -> None:
    driver.database.execute(
        "CREATE TABLE t (id UInt64, v Nullable(UInt256), d Decimal(50, 2), s FixedString(2)) ENGINE = MergeTree"
        " ORDER BY id",
        f"INSERT INTO t SELECT number, if(number = 1, NULL, toUInt256('{2**255}') + number), number + 0.25, 'ab'"
        " FROM numbers(100)",
    )
    source = cluster_source(driver, config={"page_size": 10})
    (frame, position), *rest = frames(source, spark)
    source.close()
    assert frame.rdd.getNumPartitions() > 1
    tables = [each.toArrow() for each, _ in [(frame, position), *rest]]
    physical = pa.concat_tables(tables)
    assert physical.column("id").to_pylist() == list(range(100))
    logical = from_physical(physical, to_arrow_schema(frame.schema)).slice(0, 2)
    assert logical.column("d").to_pylist() == [Decimal("0.25"), Decimal("1.25")]
    assert physical.column("v")[:2].to_pylist() == [(2**255).to_bytes(32, "big"), None]
    assert [after[STATE_KEY]["args"] for _, after in [(frame, position), *rest]][-1] == [100]


def test_a_position_of_executors_is_that_of_the_driver(driver: SourceDriver, spark: Any) -> None:
    driver.database.execute(
        "CREATE TABLE t (id UInt64) ENGINE = MergeTree ORDER BY id", "INSERT INTO t SELECT number FROM numbers(500)"
    )
    source = cluster_source(driver, config={"page_size": 10})
    frame, position = next(frames(source, spark))
    source.close()
    driver.state.store(position)
    rows = [row.id for row in frame.collect()] + [row["id"] for row in driver.read()]
    assert rows == list(range(500))


def test_executors_retry_and_divide_pages(driver: SourceDriver, clickhouse: LocalClickHouse, spark: Any) -> None:
    driver.database.execute(
        "CREATE TABLE t (k String, n UInt64) ENGINE = MergeTree ORDER BY (k, n)",
        "INSERT INTO t SELECT 'x', number FROM numbers(100)",
    )
    source = cluster_source(driver, config={"page_size": 100})
    inject_fault(clickhouse, "truncate", match="ArrowStream", bytes=500)
    inject_fault(clickhouse, "error", match="ArrowStream", code=159, name="TIMEOUT_EXCEEDED", times=2, skip=1)
    found = [row.n for frame, _ in frames(source, spark) for row in frame.collect()]
    source.close()
    assert found == list(range(100))


def test_an_error_of_an_executor_is_one_sentence(driver: SourceDriver, spark: Any) -> None:
    driver.database.execute(
        "CREATE TABLE t (id UInt64, s String) ENGINE = MergeTree ORDER BY id", "INSERT INTO t VALUES (1, unhex('ff'))"
    )
    source = cluster_source(driver)
    frame, _ = next(frames(source, spark))
    with pytest.raises(Exception, match="ExecutorError") as raised:
        frame.collect()
    source.close()
    error = source.translate_error(raised.value)
    assert isinstance(error, StreamlingError)
    assert str(error).startswith(f"the column 's' of the table {driver.database.name}.t cannot be read: it contains")
    assert source.translate_error(ValueError("something else")) is None
