"""A restart in any phase, and states that other implementations or other pipeline files have left."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from streamling.connectors.memory import collected_rows
from streamling.connectors.postgres.state import PostgresState
from streamling.errors import StreamlingError
from tests.connectors.hybrid.driver import ORDERS, arrived, stop
from tests.connectors.kafka.source_driver import Topic, rows_in
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

KEY = "hybrid_source_orders_v1"
FIRST, SECOND = "clickhouse_source:orders:v1", "clickhouse_source:orders:v1:phase_1"
#: small pages, so that a stop falls between two of them
PAGES = {"page_size": 50, "sort_key_range": 100}


def cursor(*args: Any) -> dict[str, Any]:
    return {"sorting_keys": ["id"], "args": list(args)}


def filled(bench, rows: int = 5) -> Topic:
    """Two tables, ``first`` from 0 on and ``second`` from 10 000 on, and a topic from 20 000 on."""
    bench.database.orders("first", 0, 1000)
    bench.database.orders("second", 10_000, 1000)
    topic = bench.topic()
    topic.write(ORDERS, *({"id": 20_000 + number, "name": "new"} for number in range(rows)))
    return topic


ALL = [*range(1000), *range(10_000, 11_000), *range(20_000, 20_005)]


def ids(run) -> list[int]:
    return collected_rows(run, "out").column("id").to_pylist()


@pytest.mark.parametrize("after", [200, 1200, 2001])
def test_a_run_continues_where_the_last_one_was_stopped(bench, after):
    topic = filled(bench)
    bench.reading = PAGES
    run = bench.begin(topic, "first", "second")
    arrived(run, after)
    stop(run)
    first = ids(run)
    assert first == ALL[: len(first)]
    assert bench.state.get(KEY)["current_phase"] == (0 if len(first) < 1000 else 1 if len(first) < 2000 else 2)
    topic.write(ORDERS, {"id": 30_000, "name": "last"})
    run = bench.begin(topic, "first", "second")
    arrived(run, 2006 - len(first))
    stop(run)
    assert first + ids(run) == [*ALL, 30_000]


def test_every_position_that_can_be_stored_leads_to_the_same_rows(bench):
    """Restores each stored state of one run, as after a crash at that moment, and reads on."""
    bench.database.orders("first", 0, 120)
    bench.database.orders("second", 10_000, 60)
    topic = bench.topic()
    topic.write(ORDERS, *({"id": 20_000 + number, "name": "new"} for number in range(3)))
    bench.reading = {"page_size": 25, "sort_key_range": 100}
    bench.config["checkpoint_interval_sec"] = 0.01
    states: list[dict[str, Any]] = []

    def remember(entries) -> None:
        store(entries)
        states.append(dict(bench.state.items()))

    store, bench.state.put_positions = bench.state.put_positions, remember
    run = bench.begin(topic, "first", "second")
    arrived(run, 183)
    stop(run)
    everything = set(ids(run))
    assert len(everything) == 183
    distinct = [state for number, state in enumerate(states) if state not in states[:number]]
    assert len(distinct) >= 4
    bench.config["checkpoint_interval_sec"] = 60
    for state in distinct[:: max(1, len(distinct) // 6)]:
        bench.state.put_positions = store
        bench.state.clear()
        bench.state.put_many(state)
        expected = everything - delivered_before(state, topic)
        run = bench.begin(topic, "first", "second")
        arrived(run, len(expected))
        stop(run)
        assert set(ids(run)) == expected


def delivered_before(state: dict[str, Any], topic: Topic) -> set[int]:
    """The ids that a position leaves out, as its entries say."""
    phase, first, second = state[KEY]["current_phase"], state.get(FIRST), state.get(SECOND)
    offset = (state.get(f"orders:{topic.name}:0") or {"offset": 0})["offset"]
    return {
        *range(120 if phase > 0 else int(first["args"][0]) if first else 0),
        *range(10_000, 10_060 if phase > 1 else int(second["args"][0]) if second else 10_000),
        *range(20_000, 20_000 + offset),
    }


# ── states of others ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cursor_of_the_original_is_continued(bench, caplog):
    """Resume from a high saved split: nothing before it is read."""
    topic = filled(bench)
    bench.state.put_many({FIRST: cursor("990")})
    assert bench.read(topic, "first", count=15)[0]["id"] == 990
    assert (
        "the state has no readable entry 'hybrid_source_orders_v1': continuing with the table 'first' "
        "(bounded_sources[0]), as other entries imply"
    ) in caplog.text


def test_the_shared_cursor_of_the_original_is_that_of_the_current_phase(bench):
    topic = filled(bench)
    entry = {"current_phase": 1, "completed_phases": [0], "unbounded_offsets": {}}
    bench.state.put_many({KEY: entry, FIRST: cursor("10990")})
    rows = bench.read(topic, "first", "second", count=15)
    assert [row["id"] for row in rows] == [*range(10_990, 11_000), *range(20_000, 20_005)]
    assert bench.state.get(FIRST) is None


def test_the_highest_phase_with_a_cursor_is_continued(bench):
    topic = filled(bench)
    bench.state.put_many({FIRST: cursor("100"), SECOND: cursor("10995")})
    rows = bench.read(topic, "first", "second", count=10)
    assert [row["id"] for row in rows] == [*range(10_995, 11_000), *range(20_000, 20_005)]


def test_offsets_of_every_partition_of_the_offset_table_mean_that_the_topic_is_being_read(bench, caplog):
    topic = filled(bench)
    bench.database.offsets({(topic.name, 0): 1})
    bench.state.put_many({f"orders:{topic.name}:0": {"offset": 3, "updated_at": 1}, FIRST: cursor("100")})
    assert [row["id"] for row in bench.read(topic, "first", count=2)] == [20_003, 20_004]
    assert f"continuing with the topic '{topic.name}'" in caplog.text


def test_offsets_of_some_partitions_are_replaced_when_the_tables_have_been_read(bench):
    """Those in the offset table may be smaller: a stored offset would be moved backwards."""
    bench.database.orders("first", 0, 5)
    topic = bench.topic(partitions=2)
    for partition in (0, 1):
        rows = ({"id": 100 * partition + number, "name": "new"} for number in range(5))
        topic.write(ORDERS, *rows, partition=partition)
    bench.database.offsets({(topic.name, 0): 2, (topic.name, 1): 2})
    bench.state.put_many({f"orders:{topic.name}:0": {"offset": 4, "updated_at": 1}})
    rows = bench.read(topic, "first", count=11)
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 2, 3, 3, 4, 4, 102, 103, 104]


# ── changed pipeline files ──────────────────────────────────────────────────────────────────────────────────────


def test_a_phase_that_is_added_after_the_switch_is_not_read(bench, caplog):
    topic = filled(bench)
    assert len(bench.read(topic, "first", count=1005)) == 1005
    topic.write(ORDERS, {"id": 30_000, "name": "last"})
    assert [row["id"] for row in bench.read(topic, "first", "second", count=1)] == [30_000]
    assert (
        f"the table 'second' (bounded_sources[1]) is not read: the source has already switched to the topic "
        f"'{topic.name}'. To read everything again, use 'streamling state reset'"
    ) in caplog.text


def test_a_kafka_source_of_the_same_name_continues_after_the_switch(bench):
    """It can run as several instances."""
    topic = filled(bench)
    assert len(bench.read(topic, "first", count=1005)) == 1005
    topic.write(ORDERS, {"id": 30_000, "name": "last"})
    run = bench.start(bench.text({"type": "kafka", "topic": topic.name, "primary_key": "id"}))
    arrived(run, 1)
    stop(run)
    assert ids(run) == [30_000]


# ── a state that several instances could share ──────────────────────────────────────────────────────────────────


def test_the_switch_is_in_a_shared_state_before_the_topic_is_read(bench, postgres_state):
    """The consumer group assigns the partitions, and their offsets come from the state."""
    topic = filled(bench)
    bench.database.offsets({(topic.name, 0): 3})
    bench.config["checkpoint_interval_sec"] = 3600
    with PostgresState("app", postgres_state) as bench.state:
        rows = bench.read(topic, "first", count=1002)
        assert [row["id"] for row in rows[1000:]] == [20_003, 20_004]
        topic.write(ORDERS, {"id": 30_000, "name": "last"})
        assert [row["id"] for row in bench.read(topic, "first", count=1)] == [30_000]


# ── retention ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_that_were_deleted_while_the_tables_were_read_are_an_error(bench):
    from streamling.dev.services.topics import delete_records

    topic = filled(bench)
    bench.database.offsets({(topic.name, 0): 1})
    bench.reading = PAGES
    run = bench.begin(topic, "first", "second")
    eventually(lambda: rows_in(run) > 0 or run.failure is not None, 60)
    stop(run)
    delete_records(topic.kafka.brokers, topic.name, {0: 4})
    with pytest.raises(StreamlingError) as caught:
        finish(bench.begin(topic, "first", "second"))
    assert (
        f"the topic '{topic.name}' has to be read from offset 1 of partition 0, but it now starts at offset 4: "
        "3 messages were deleted while the tables were read"
    ) in str(caught.value)


@pytest.mark.parametrize("policy", ["auto", "fast"])
def test_a_stop_while_a_table_is_read_stores_the_position(bench, policy, caplog):
    caplog.set_level(logging.WARNING)
    topic = filled(bench)
    bench.reading = PAGES
    bench.config |= {"drain_policy": policy, "checkpoint_interval_sec": 3600}
    run = bench.begin(topic, "first")
    arrived(run, 100)
    stop(run)
    read = ids(run)
    assert read == list(range(len(read)))
    assert bench.state.get(KEY)["current_phase"] == (0 if len(read) < 1000 else 1)
    assert ("drain_policy 'fast' does not apply" in caplog.text) is (policy == "fast")
