"""Servers that fail: every row is read once, or there is one sentence that says why not."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from streamling.connectors.clickhouse import page_size
from streamling.dev.services.clickhouse import LocalClickHouse
from streamling.errors import StreamlingError, Unreachable
from tests.connectors.clickhouse.driver import Database
from tests.connectors.clickhouse.source_driver import STATE_KEY, SourceDriver
from tests.harness.clickhouse import clear_faults, inject_fault, pending_faults
from tests.harness.endpoint import Reply, endpoint
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.services

#: in the query of a page, and in no other one
PAGE = "ArrowStream"


@pytest.fixture(scope="module")
def server(clickhouse: Any) -> LocalClickHouse:
    if not isinstance(clickhouse, LocalClickHouse):
        pytest.fail("faults need the local server: unset STREAMLING_TEST_CLICKHOUSE_URL")
    return clickhouse


@pytest.fixture
def driver(database: Database, server: LocalClickHouse) -> Iterator[SourceDriver]:
    database.execute(
        "CREATE TABLE t (id UInt64, name String) ENGINE = MergeTree ORDER BY (id, name)",
        "INSERT INTO t SELECT number, repeat(toString(number), 50) FROM numbers(1000)",
    )
    yield SourceDriver(database)
    clear_faults(server)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "error", "code": 202, "name": "TOO_MANY_SIMULTANEOUS_QUERIES"},
        {"action": "close_before"},
        {"action": "close_after"},
        {"action": "truncate", "bytes": 100},
        {"action": "truncate", "bytes": 10_000},
        {"action": "exception", "bytes": 10_000, "code": 210, "name": "NETWORK_ERROR"},
        {"action": "exception", "bytes": 10_000, "code": 210, "name": "NETWORK_ERROR", "tagged": False},
    ],
    ids=lambda fault: " ".join(map(str, fault.values())),
)
def test_a_page_that_fails_is_read_again(server: LocalClickHouse, driver: SourceDriver, fault: dict[str, Any]) -> None:
    inject_fault(server, fault.pop("action"), match=PAGE, times=3, skip=1, **fault)
    assert ids(driver.read(config={"page_size": 250})) == list(range(1000))
    assert pending_faults(server) == []


@pytest.mark.parametrize("match", ["count()", "intDiv", "LIMIT 1"])
def test_queries_for_keys_are_retried(server: LocalClickHouse, driver: SourceDriver, match: str) -> None:
    inject_fault(server, "close_after", match=match, times=2)
    assert ids(driver.read(config={"page_size": 100})) == list(range(1000))
    assert pending_faults(server) == []


def test_the_start_waits_for_the_server(server: LocalClickHouse, driver: SourceDriver) -> None:
    inject_fault(server, "error", match="system.tables", code=203, name="NO_FREE_CONNECTION", times=2)
    assert driver.source().schema().names == ["id", "name"]


@pytest.mark.parametrize("code", [159, 241, 396])
def test_a_query_that_exceeds_a_limit_is_divided(
    server: LocalClickHouse, driver: SourceDriver, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    inject_fault(server, "error", match=PAGE, code=code, name="LIMIT_EXCEEDED", times=1)
    with caplog.at_level(logging.INFO), driver.running(config={"page_size": 1000, "sort_key_range": 10**6}) as run:
        pages = [table.num_rows for table in run.tables()]
    assert sum(pages) == 1000
    assert pages[0] <= 500
    assert "reading 500 rows at a time" in caplog.text


def test_ranges_that_take_too_long_to_count_are_made_narrower(server: LocalClickHouse, driver: SourceDriver) -> None:
    inject_fault(server, "error", match="intDiv", code=159, name="TIMEOUT_EXCEEDED", times=2)
    assert ids(driver.read(config={"page_size": 100})) == list(range(1000))


def test_query_timeout_sec_ends_a_query_on_the_server(driver: SourceDriver, caplog: pytest.LogCaptureFixture) -> None:
    """Each row takes 20 ms, so that only a few of them can be read in time."""
    driver.database.execute(
        "CREATE TABLE slow (id UInt64) ENGINE = MergeTree ORDER BY id SETTINGS index_granularity = 1",
        "INSERT INTO slow SELECT number FROM numbers(40)",
    )
    with caplog.at_level(logging.INFO):
        rows = driver.read("slow", filter="sleepEachRow(0.02) = 0", config={"query_timeout_sec": 0.3})
    assert ids(rows) == list(range(40))
    assert "Timeout exceeded" in caplog.text


def test_pages_of_wide_rows_are_given_up_and_divided(
    driver: SourceDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(page_size, "TARGET_BYTES", 100_000)
    driver.database.execute("INSERT INTO t SELECT 1000 + number, randomPrintableASCII(50000) FROM numbers(50)")
    with caplog.at_level(logging.INFO), driver.running() as run:
        tables = list(run.tables())
    assert [id for table in tables for id in table.column("id").to_pylist()] == list(range(1050))
    assert max(table.nbytes for table in tables) < 8 * 100_000
    assert "rows at a time" in caplog.text


@pytest.mark.parametrize("fault", [{"action": "error"}, {"action": "exception", "bytes": 5000}])
def test_a_permanent_error_stops_the_source(
    server: LocalClickHouse, driver: SourceDriver, fault: dict[str, Any]
) -> None:
    message = {"code": 47, "name": "UNKNOWN_IDENTIFIER", "message": "Missing columns: 'name'"}
    not_the_first = f"__streamling_1 FROM `{driver.database.name}`.`t` WHERE (id >= "
    inject_fault(server, fault.pop("action"), match=not_the_first, times=0, **message, **fault)
    with driver.running(config={"page_size": 300}) as run:
        first = run.step()
        assert first is not None
        driver.state.store(run.position)
        with pytest.raises(StreamlingError, match=r"reported error 47: Missing columns: 'name'") as error:
            run.rows()
    assert not error.value.retriable
    clear_faults(server)
    assert ids(first.to_pylist()) + ids(driver.read()) == list(range(1000))


def test_a_table_that_is_dropped_is_an_error(driver: SourceDriver) -> None:
    with driver.running(config={"page_size": 10}) as run:
        run.step()
        driver.database.execute("DROP TABLE t")
        with pytest.raises(StreamlingError, match=r"\.t"):
            run.rows()


def test_a_source_that_retries_ends_when_the_pipeline_stops(server: LocalClickHouse, driver: SourceDriver) -> None:
    inject_fault(server, "close_before", match=PAGE, times=0)
    reports: list[StreamlingError | None] = []
    stopping = threading.Event()
    context = {"stopping": stopping, "report_retry": reports.append}
    with driver.running(context=context, config={"startup_timeout_sec": 0}) as run:
        eventually(lambda: run.source.read(run.position) is None or reports)
        assert "Remote end closed connection" in str(reports[0])
        stopping.set()
    assert not any("clickhouse" in thread.name for thread in threading.enumerate())


def test_closing_a_source_ends_its_queries(driver: SourceDriver) -> None:
    began = time.monotonic()
    with driver.running(filter="sleepEachRow(0.01) = 0") as run:
        run.source.read(run.position)
    assert time.monotonic() - began < 8  # the query takes 10 seconds


# ── what is wrong from the beginning ──────────────────────────────────────────────────────────────────────────


def test_a_wrong_password_is_named(driver: SourceDriver) -> None:
    with pytest.raises(StreamlingError, match="rejected the user 'default' or the password") as error:
        driver.source(config={"password": "wrong-password"}).schema()
    assert error.value.remedy == "check clickhouse_source.user and clickhouse_source.password"
    assert "wrong-password" not in str(error.value)


def test_a_server_that_does_not_respond_is_named(driver: SourceDriver) -> None:
    with pytest.raises(Unreachable, match=r"ClickHouse at http://127\.0\.0\.1:1 does not respond") as error:
        driver.source(config={"url": "http://127.0.0.1:1", "startup_timeout_sec": 0.1}).schema()
    assert error.value.remedy == "start the server, or correct clickhouse_source.url"


def test_a_server_that_is_not_clickhouse_is_named(driver: SourceDriver) -> None:
    with endpoint(lambda request: Reply(404, b"not here")) as other:
        url = f"http://127.0.0.1:{other.port}"
        with pytest.raises(StreamlingError, match="returned status 404") as error:
            driver.source(config={"url": url}).schema()
    assert "clickhouse_source.url" in (error.value.remedy or "")


def test_a_missing_database_is_named(driver: SourceDriver) -> None:
    with pytest.raises(StreamlingError, match="nowhere"):
        driver.source(config={"database": "nowhere"}).schema()


def test_the_position_survives_a_server_that_fails(server: LocalClickHouse, driver: SourceDriver) -> None:
    """A failure in the middle of a page must not move the position."""
    inject_fault(server, "truncate", match=PAGE, bytes=1000, skip=2, times=1)
    with driver.running(config={"page_size": 100}) as run:
        seen = 0
        for table in run.tables():
            seen += table.num_rows
            assert run.position[STATE_KEY]["args"] == [seen]
    assert seen == 1000
