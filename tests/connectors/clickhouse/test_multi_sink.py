"""Rows that go to ClickHouse and to other systems."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from tests.connectors.clickhouse.driver import Database, SinkDriver, in_batches, run, started
from tests.connectors.postgres.driver import Driver as PostgresDriver
from tests.connectors.sink_driver import Row
from tests.harness.endpoint import endpoint
from tests.harness.pipelines import eventually, finish

pytestmark = pytest.mark.services

ROWS: list[Row] = [("i", n, f"v{n}") for n in range(40)]


@pytest.fixture
def driver(database: Database) -> SinkDriver:
    return SinkDriver(database)


@pytest.fixture
def pg(postgres: LocalPostgres) -> PostgresDriver:
    return PostgresDriver(postgres.dsn)


def postgres_node(pg: PostgresDriver) -> dict[str, Any]:
    return {"type": "postgres", "schema": pg.schema, "table": "t"}


def test_postgres_and_clickhouse_get_the_same_rows(driver: SinkDriver, pg: PostgresDriver) -> None:
    changes = [*ROWS, ("d", 3, "v3"), ("u", 4, "changed")]
    run(driver, in_batches(changes, 7), {"pg": postgres_node(pg), "ch": {"table": "t"}}, postgres_sink=pg.settings)
    assert driver.rows() == pg.rows()
    assert len(pg.rows()) == 39
    assert (4, "changed") in pg.rows()


def test_a_failing_sink_stops_the_pipeline_at_once_and_no_position_is_stored(
    driver: SinkDriver, pg: PostgresDriver
) -> None:
    driver.database.execute("CREATE TABLE t (id Int64, v UUID, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    state = MemoryState()
    sinks = {"pg": postgres_node(pg), "ch": {"table": "t"}}
    with pytest.raises(StreamlingError, match=r"clickhouse sink 'ch': column 'v' of table .* is not a valid UUID"):
        run(driver, in_batches(ROWS, 7), sinks, postgres_sink=pg.settings, state=state, checkpoint_interval_sec=60)
    assert state.get("given") is None


def test_a_checkpoint_with_clickhouse_and_a_webhook_is_finalized(driver: SinkDriver) -> None:
    state = MemoryState()
    with endpoint() as server:
        sinks = {"ch": {"table": "t"}, "hook": {"type": "webhook", "url": server.url}}
        pipeline = started(driver, in_batches(ROWS, 7), sinks, state=state, ends=False)
        try:
            eventually(lambda: state.get("given") == 6)
            assert driver.rows() == [(n, f"v{n}") for n in range(40)]
            assert sorted(row["id"] for row in server.rows) == list(range(40))
        finally:
            pipeline.stop("the test has what it wants")
            finish(pipeline)


def test_an_outage_of_postgres_does_not_lose_rows_of_clickhouse(driver: SinkDriver, pg: PostgresDriver) -> None:
    """A row that Postgres rejects stops both; after the table is repaired, the replay completes both."""
    state = MemoryState()
    pg.create("id bigint primary key, v text CHECK (v <> 'v20')")
    sinks = {"pg": postgres_node(pg), "ch": {"table": "t"}}
    with pytest.raises(StreamlingError, match="t_v_check"):
        run(driver, in_batches(ROWS, 7), sinks, postgres_sink=pg.settings, state=state)
    with psycopg.connect(pg.dsn, autocommit=True) as connection:
        connection.execute(f'ALTER TABLE "{pg.schema}".t DROP CONSTRAINT t_v_check'.encode())
    run(driver, in_batches(ROWS, 7), sinks, postgres_sink=pg.settings, state=state)
    assert driver.rows() == pg.rows() == [(n, f"v{n}") for n in range(40)]
