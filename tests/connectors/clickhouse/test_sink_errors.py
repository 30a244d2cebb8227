"""Faults of the server: what is retried, what fails at once, and that nothing is lost or written twice."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamling.connectors.clickhouse.errors import RowError
from streamling.connectors.clickhouse.sink import ClickHouseSink
from streamling.dev.services.clickhouse import LocalClickHouse
from streamling.engine.run.contexts import NodeStateView
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError, Unreachable
from tests.connectors.clickhouse.driver import Database, SinkDriver
from tests.connectors.sink_driver import batch
from tests.harness.clickhouse import inject_fault, pending_faults
from tests.harness.endpoint import Reply, endpoint

pytestmark = pytest.mark.services


@pytest.fixture
def driver(local_database: Database) -> SinkDriver:
    return SinkDriver(local_database)


TRANSIENT: list[dict[str, Any]] = [
    {"action": "error", "code": 252, "name": "TOO_MANY_PARTS", "message": "Too many parts (300)."},
    {"action": "error", "code": 242, "name": "TABLE_IS_READ_ONLY"},
    {"action": "error", "code": 159, "name": "TIMEOUT_EXCEEDED"},
    {"action": "error", "code": 999, "name": "KEEPER_EXCEPTION"},
    {"action": "error", "code": 319, "name": "UNKNOWN_STATUS_OF_INSERT"},
    {"action": "close_before"},
    {"action": "close_after"},
    {"action": "exception", "code": 210, "name": "NETWORK_ERROR"},
]


@pytest.mark.parametrize("fault", TRANSIENT, ids=lambda fault: fault.get("name", fault["action"]))
def test_a_fault_that_may_disappear_is_retried_and_every_row_is_written_once(
    driver, local_clickhouse: LocalClickHouse, caplog, fault
) -> None:
    with driver.opened(batch(("i", 1, "a")).schema) as sink:
        sink.write(batch(("i", 1, "a")))
        sink.flush()
        inject_fault(local_clickhouse, **fault, match="INSERT INTO", times=2)
        with caplog.at_level(logging.INFO):
            sink.write(batch(("i", 2, "b"), ("i", 3, "c")))
            sink.flush()
    assert driver.rows(final=False) == [(1, "a"), (2, "b"), (3, "c")]
    assert "attempt 1, retrying in 0.1 s" in caplog.text
    assert "recovered after 2 failed attempts" in caplog.text
    assert pending_faults(local_clickhouse) == []


def test_a_delete_is_retried(driver, local_clickhouse: LocalClickHouse) -> None:
    rows = batch(("i", 1, "a"), ("i", 2, "b"))
    with driver.opened(rows.schema, append_only_mode=False) as sink:
        sink.write(rows)
        sink.flush()
        inject_fault(local_clickhouse, "close_after", match="ALTER TABLE")
        inject_fault(local_clickhouse, "error", match="ALTER TABLE", code=341, name="UNFINISHED")
        sink.write(batch(("d", 1, "a")))
        sink.flush()
    assert driver.rows() == [(2, "b")]


def test_a_table_is_found_and_created_in_spite_of_faults(driver, local_clickhouse: LocalClickHouse) -> None:
    inject_fault(local_clickhouse, "close_before", match="system.tables")
    inject_fault(local_clickhouse, "close_after", match="CREATE TABLE")
    driver.write(batch(("i", 1, "a")))
    assert driver.rows() == [(1, "a")]


def test_a_server_that_dies_during_an_insert_gets_every_row_once(tmp_path: Path) -> None:
    with LocalClickHouse(tmp_path / "clickhouse") as server, Database.created(server) as database:
        driver = SinkDriver(database)
        rows = [batch(*(("i", at + n, "x" * 100) for n in range(2000))) for at in range(0, 40_000, 2000)]
        with driver.opened(rows[0].schema) as sink:
            for number, each in enumerate(rows):
                sink.write(each)
                if number == 7:  # while it is being sent
                    server.kill()
                    server.start()
            sink.flush()
        assert driver.rows("count(), uniqExact(id)", final=False) == [(40_000, 40_000)]


def test_a_block_is_logged_when_the_one_before_has_arrived(driver, local_clickhouse: LocalClickHouse) -> None:
    """A block that is followed by another one in the log is not inserted again after a crash."""
    arrived: list[int] = []

    class Watched(MemoryState):
        def put_many(self, entries: Mapping[str, Any]) -> None:
            arrived.append(len(driver.rows(final=False)))
            super().put_many(entries)

    context = {"state": NodeStateView(Watched(), "out", ())}
    with driver.opened(batch(("i", 1, "a")).schema, context=context) as sink:
        inject_fault(local_clickhouse, "delay", match="INSERT INTO", seconds=0.5)
        for number in range(3):
            sink.write(batch(("i", number, "a")))
    assert arrived == [0, 1, 2]


def test_rows_are_kept_while_the_pipeline_cannot_write_them(driver, local_clickhouse: LocalClickHouse) -> None:
    """The cause of an outage is known to the checkpoint that waits for it."""
    causes: list[str | None] = []
    context = {"report_retry": lambda error: causes.append(None if error is None else str(error))}
    with driver.opened(batch(("i", 1, "a")).schema, context=context) as sink:
        inject_fault(local_clickhouse, "error", match="INSERT INTO", code=252, name="TOO_MANY_PARTS")
        sink.write(batch(("i", 1, "a")))
        sink.flush()
    assert "TOO_MANY_PARTS" in str(causes[0])
    assert causes[-1] is None


def test_a_pipeline_that_stops_does_not_wait_for_a_server_for_ever(driver, local_clickhouse: LocalClickHouse) -> None:
    stopping = threading.Event()
    stopping.set()
    with driver.opened(batch(("i", 1, "a")).schema, context={"stopping": stopping}) as sink:
        inject_fault(local_clickhouse, "error", match="INSERT INTO", code=242, name="TABLE_IS_READ_ONLY", times=0)
        sink.write(batch(("i", 1, "a")))
        with pytest.raises(StreamlingError, match="TABLE_IS_READ_ONLY") as caught:
            sink.flush()
    assert caught.value.retriable


# ── errors that stay ────────────────────────────────────────────────────────────────────────────────────────


def failure(sink: ClickHouseSink, *rows: tuple[Any, ...]) -> StreamlingError:
    with pytest.raises(StreamlingError) as caught:  # noqa: PT012 - the next call raises what the server says
        sink.write(batch(*rows))
        sink.flush()
    assert not caught.value.retriable
    assert not caught.value.internal
    return caught.value


def test_a_table_that_is_dropped_while_the_pipeline_runs_is_an_error(driver) -> None:
    with driver.opened(batch(("i", 1, "a")).schema) as sink:
        driver.database.execute("DROP TABLE t")
        error = failure(sink, ("i", 1, "a"))
    assert f"Table {driver.database.name}.t does not exist" in str(error)
    assert error.remedy == "create the table; a sink creates it when the pipeline starts"


def test_a_column_that_is_dropped_while_the_pipeline_runs_is_an_error_that_names_it(driver) -> None:
    with driver.opened(batch(("i", 1, "a")).schema) as sink:
        driver.database.execute("ALTER TABLE t DROP COLUMN v")
        assert "No such column v in table" in str(failure(sink, ("i", 1, "a")))


def test_a_violated_constraint_is_about_a_row(driver, local_clickhouse: LocalClickHouse) -> None:
    with driver.opened(batch(("i", 1, "a")).schema) as sink:
        message = "Constraint `small` for table t is violated at row 1."
        inject_fault(
            local_clickhouse, "error", match="INSERT INTO", code=469, name="VIOLATED_CONSTRAINT", message=message
        )
        error = failure(sink, ("i", 100, "a"))
        assert isinstance(error, RowError)
        assert "Constraint `small`" in str(error)


@pytest.mark.parametrize(
    "fault",
    [
        {"code": 164, "name": "READONLY", "message": "Cannot execute query in readonly mode."},
        {"code": 497, "name": "ACCESS_DENIED", "message": "Not enough privileges."},
        {"code": 252, "name": "TOO_MANY_PARTS", "message": "Too many partitions for single INSERT block."},
    ],
    ids=lambda fault: fault["name"],
)
def test_an_error_that_stays_is_not_retried(driver, local_clickhouse: LocalClickHouse, fault) -> None:
    with driver.opened(batch(("i", 1, "a")).schema) as sink:
        inject_fault(local_clickhouse, "error", match="INSERT INTO", **fault)
        assert fault["message"].rstrip(".") in str(failure(sink, ("i", 1, "a")))
    assert pending_faults(local_clickhouse) == []


def test_a_server_that_does_not_exist_is_an_error_after_the_start_up_time(driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        driver.settings["url"] = f"http://127.0.0.1:{taken.getsockname()[1]}"
    from streamling.pipeline.config import AppConfig

    config = AppConfig(clickhouse_sink=driver.settings, startup_timeout_sec=0.2)
    with pytest.raises(Unreachable, match="does not respond: Connection refused"):
        driver.write(batch(("i", 1, "a")), context={"config": config})


def test_a_wrong_password_is_an_error_at_once_and_is_not_shown(driver) -> None:
    driver.settings["password"] = "hunter2"
    with pytest.raises(StreamlingError, match="rejected the user 'default' or the password") as caught:
        driver.write(batch(("i", 1, "a")))
    assert "hunter2" not in repr(caught.value)


def test_a_web_server_in_place_of_clickhouse_is_an_error_at_once(driver) -> None:
    with endpoint(lambda request: Reply(404, b"<html>Not found</html>")) as server:
        driver.settings["url"] = server.url
        with pytest.raises(StreamlingError, match="returned status 404: <html>Not found</html>") as caught:
            driver.write(batch(("i", 1, "a")))
    assert caught.value.remedy == "check clickhouse_sink.url: it must be the HTTP interface of ClickHouse"
