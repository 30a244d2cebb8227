"""The sink inside the engine: contract, several instances, batches, dead letters, replays. Without Spark."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from streamling.connectors.clickhouse.sink import ClickHouseSink
from streamling.engine.run.contexts import NodeStateView
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.testing import SinkContract
from tests.connectors.clickhouse.driver import Database, SinkDriver, in_batches, run
from tests.connectors.sink_driver import Row, batch

pytestmark = pytest.mark.services


@pytest.fixture
def driver(database: Database) -> SinkDriver:
    return SinkDriver(database)


# ── contract ────────────────────────────────────────────────────────────────────────────────────────────────


class ClickHouseContract(SinkContract):
    append_only = True

    @pytest.fixture(autouse=True)
    def _table(self, driver: SinkDriver) -> None:
        self.driver = driver
        config = AppConfig(clickhouse_sink=driver.settings)

        class Configured(ClickHouseSink):
            def __init__(self, context):
                super().__init__(replace(context, config=config))

        self.operator = Configured

    def options(self) -> dict[str, Any]:
        return {"table": "t", "primary_key": "id", "append_only_mode": self.append_only, "batch_size": 0}

    def durable(self) -> list[Mapping[str, Any]]:
        if not self.driver.database.types("t"):
            return []
        return [{"id": id, "name": name} for id, name in self.driver.rows("id, name")]

    def expected(self, rows):
        return [{key: value for key, value in row.items() if key != "_gs_op"} for row in rows]


class TestAppending(ClickHouseContract):
    pass


class TestDeleting(ClickHouseContract):
    append_only = False


# ── pipelines ───────────────────────────────────────────────────────────────────────────────────────────────


def random_changes(seed: int, count: int) -> list[Row]:
    chance = random.Random(seed)
    return [(chance.choice("iuud"), chance.randrange(50), f"v{n}") for n in range(count)]


def outcome(changes: list[Row]) -> list[Row]:
    table: dict[int, str] = {}
    for operation, key, value in changes:
        if operation == "d":
            table.pop(key, None)
        else:
            table[key] = value
    return sorted(table.items())


@pytest.mark.parametrize("append_only_mode", [True, False])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_changes_have_the_same_result_with_any_number_of_instances(driver, parallelism, append_only_mode) -> None:
    changes = random_changes(7, 500)
    sink = {"table": "t", "parallelism": parallelism, "append_only_mode": append_only_mode}
    run(driver, in_batches(changes, 100), {"out": sink})
    assert driver.rows() == outcome(changes)


@pytest.mark.parametrize(
    ("options", "config", "expected"),
    [
        ({"batch_size": 25}, {}, 4),
        ({"batch_size": 0}, {}, 10),
        ({}, {}, 1),
        ({}, {"batch_size": 50}, 2),
        ({"batch_size": 1000, "batch_flush_interval": "0s"}, {}, 10),
        ({"batch_size": 1000}, {"batch_flush_interval": "0s"}, 10),
    ],
    ids=["batch_size", "as they come", "default", "configured size", "interval", "configured interval"],
)
def test_rows_are_collected_into_the_configured_blocks(driver, options, config, expected) -> None:
    driver.database.execute("CREATE TABLE t (id Int64, v String, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    driver.database.execute("SYSTEM STOP MERGES t")
    driver.settings |= config
    rows = [("i", n, "v") for n in range(100)]
    # no checkpoint before the end, which would flush what has been collected so far
    run(driver, in_batches(rows, 10), {"out": {"table": "t", **options}}, checkpoint_interval_sec=60)
    assert driver.rows("count(), uniqExact(_part)", final=False) == [(100, expected)]


def test_rows_that_the_table_cannot_hold_go_to_the_dead_letter_sink(driver) -> None:
    driver.database.execute("CREATE TABLE t (id UInt8, v IPv6, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    rows = [("i", 300 if n == 5 else n, "no address" if n == 7 else "::1") for n in range(20)]
    sinks = {
        "out": {"table": "t", "errors": {"to": "refused"}},
        "refused": {"from": None, "table": "refused", "primary_key": "position"},
    }
    run(driver, in_batches(rows, 10), sinks)
    assert driver.rows("id", final=False) == [(n,) for n in range(20) if n not in (5, 7)]
    letters = driver.database.rows("SELECT position, error FROM refused FINAL ORDER BY position")
    assert [position for position, _ in letters] == ["id=300", "id=7"]
    assert "the value 300 is not between 0 and 255" in letters[0][1]
    assert "Invalid IPv6 value" in letters[1][1]


def test_a_sink_that_fails_stops_the_pipeline_with_node_and_cause(driver) -> None:
    driver.database.execute("CREATE TABLE t (id Int64, v Int64) ENGINE MergeTree ORDER BY id")
    with pytest.raises(StreamlingError, match=r"clickhouse sink 'out': column 'v' .* has type Int64") as caught:
        run(driver, in_batches([("i", 1, "v")], 1), {"good": {"table": "other"}, "out": {"table": "t"}})
    assert not caught.value.internal


def test_a_version_column_without_append_only_mode_is_reported(driver, caplog) -> None:
    sink = {"table": "t", "append_only_mode": False, "version_column_name": "v"}
    run(driver, in_batches([("i", 1, "v")], 1), {"out": sink})
    assert "versions are compared in append-only mode only" in caplog.text


# ── replays ─────────────────────────────────────────────────────────────────────────────────────────────────


class Crash(Exception):
    """The process ends here."""


def keep_all_rows(driver: SinkDriver) -> None:
    """A table that does not replace rows by key, but knows tokens."""
    driver.database.execute(
        "CREATE TABLE t (id Int64, v Nullable(String), is_deleted UInt8) ENGINE MergeTree ORDER BY id"
        " SETTINGS non_replicated_deduplication_window = 100"
    )


@pytest.mark.parametrize("crash_at", [0, 3, 12, 19])
@pytest.mark.parametrize("interval", [0.01, 60], ids=["checkpoints", "no checkpoint"])
def test_blocks_that_were_inserted_before_a_crash_are_not_inserted_again(driver, crash_at, interval) -> None:
    """The second run gets the same rows in batches of another size."""
    keep_all_rows(driver)
    rows: list[Row] = [("i", n, None if n % 3 == 0 else f"v{n}") for n in range(200)]
    state = MemoryState()

    def crash(number: int) -> None:
        time.sleep(0.01)
        if number == crash_at:
            raise Crash

    def attempt(size: int, **more: Any) -> None:
        run(driver, in_batches(rows, 10), {"out": {"table": "t", "batch_size": size}}, state=state, **more)

    with pytest.raises(StreamlingError):
        attempt(7, on_read=crash, checkpoint_interval_sec=interval)
    attempt(9, checkpoint_interval_sec=60)
    assert driver.rows("count(), uniqExact(id)", final=False) == [(200, 200)]


def test_a_marker_waits_for_the_rest_of_a_block_that_is_replayed(driver) -> None:
    """Otherwise the first part of the block would be inserted again. A second replay starts in the middle of it."""
    keep_all_rows(driver)
    schema = batch(("i", 1, "a")).schema
    state, acknowledged = MemoryState(), []
    context = {"state": NodeStateView(state, "out", ())}
    with driver.opened(schema, context=context) as sink:
        sink.write(batch(("i", 1, "a"), ("i", 2, "b")))
        sink.write(batch(("i", 3, "c")))
    with driver.opened(schema, context=context) as sink:
        sink.write(batch(("i", 1, "a")))
        sink.marker(1, lambda entries: acknowledged.append(entries))
        assert acknowledged == []
        sink.write(batch(("i", 2, "b"), ("i", 3, "c")))
        assert len(acknowledged) == 1
    state.put_positions(acknowledged[0])
    with driver.opened(schema, context=context) as sink:
        sink.write(batch(("i", 2, "b"), ("i", 3, "c"), ("i", 4, "d")))
        sink.flush()
    assert driver.rows(final=False) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_rows_that_a_batch_deletes_and_inserts_survive_a_replay_of_it(driver) -> None:
    """The replay deletes them first, so the server must not take the insert for one that it knows."""
    changes = batch(("i", 1, "a"), ("d", 1, "a"), ("i", 1, "b"))
    context = {"state": NodeStateView(MemoryState(), "out", ())}
    for _ in range(2):
        with driver.opened(changes.schema, context=context, append_only_mode=False, deduplicate=False) as sink:
            sink.write(changes)
            sink.flush()
    assert driver.rows() == [(1, "b")]


@pytest.mark.parametrize("stopping", [True, False])
def test_a_marker_does_not_wait_for_rows_that_do_not_arrive(driver, monkeypatch, stopping) -> None:
    monkeypatch.setattr(ClickHouseSink, "marker_seconds", 3600 if stopping else 0.01)
    schema = batch(("i", 1, "a")).schema
    state, event, acknowledged = MemoryState(), threading.Event(), threading.Event()
    context = {"state": NodeStateView(state, "out", ()), "stopping": event}
    with driver.opened(schema, context=context) as sink:
        sink.write(batch(("i", 1, "a"), ("i", 2, "b")))
        sink.write(batch(("i", 3, "c")))
    with driver.opened(schema, context=context) as sink:
        sink.write(batch(("i", 1, "a")))
        if stopping:
            event.set()
        sink.marker(1, lambda entries: acknowledged.set())
        assert acknowledged.wait(30)
        sink.write(batch(("i", 4, "d")))
    assert driver.rows() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_an_error_while_a_marker_gives_up_waiting_is_raised_by_the_next_call(driver, monkeypatch) -> None:
    monkeypatch.setattr(ClickHouseSink, "marker_seconds", 0.01)
    schema = batch(("i", 1, "a")).schema
    reported = threading.Event()
    context = {
        "state": NodeStateView(MemoryState(), "out", ()),
        "report_retry": lambda error: None if error is None else reported.set(),
    }
    with driver.opened(schema, context=context) as sink:
        sink.write(batch(("i", 1, "a"), ("i", 2, "b")))
        sink.write(batch(("i", 3, "c")))
    with driver.opened(schema, context=context) as sink:
        sink.write(batch(("i", 1, "a")))
        driver.database.execute("DROP TABLE t")
        sink.marker(1, lambda entries: pytest.fail("nothing is durable"))
        assert reported.wait(30)
        with pytest.raises(StreamlingError, match="does not exist"):
            sink.write(batch(("i", 2, "b")))
