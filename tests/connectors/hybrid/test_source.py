"""Tables, then the topic that continues them: which rows arrive, in which order, and what is stored."""

from __future__ import annotations

import logging
import re
import time
from decimal import Decimal
from itertools import pairwise
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import pytest

from streamling.connectors.hybrid.source import HybridSource
from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message
from tests.connectors.hybrid.driver import ORDERS, arrived, stop
from tests.connectors.kafka.source_driver import record
from tests.harness.pipelines import eventually
from tests.harness.tcp_front import TcpFront

pytestmark = [pytest.mark.spark, pytest.mark.services]

KEY = "hybrid_source_orders_v1"


def orders(first: int, count: int, name: str = "new") -> list[dict[str, Any]]:
    return [{"id": number, "name": name} for number in range(first, first + count)]


def ids(rows) -> list[int]:
    return [row["id"] for row in rows]


def test_the_rows_of_the_table_are_followed_by_those_of_the_topic(bench):
    bench.database.orders("archive", 1, 3)
    topic = bench.topic()
    topic.write(ORDERS, *orders(4, 3))
    rows = bench.read(topic, "archive", count=6)
    assert rows == [{**row, "_gs_op": "i"} for row in [*orders(1, 3, "old"), *orders(4, 3)]]


def test_the_phases_are_read_one_after_the_other(bench, caplog):
    caplog.set_level(logging.INFO)
    for number, table in enumerate(("first", "second", "third")):
        bench.database.orders(table, 100 * (3 - number), 5)
    topic = bench.topic()
    topic.write(ORDERS, *orders(1, 2))
    rows = bench.read(topic, "first", "second", "third", count=17)
    assert ids(rows) == [*range(300, 305), *range(200, 205), *range(100, 105), 1, 2]
    reading = [text for text in caplog.messages if text.startswith("reading the table")]
    assert reading == [
        "reading the table 'first' (bounded_sources[0])",
        "reading the table 'second' (bounded_sources[1])",
        "reading the table 'third' (bounded_sources[2])",
    ]
    assert f"all tables have been read; continuing with the topic '{topic.name}'" in caplog.messages
    assert bench.state.get(KEY)["completed_phases"] == [0, 1, 2]
    assert not [key for key in bench.state.items() if key.startswith("clickhouse_source:")]


def test_each_phase_has_its_own_filter(bench):
    """That of a table is ClickHouse SQL, that of the topic is Streamling's."""
    bench.database.orders("archive", 0, 100)
    topic = bench.topic()
    topic.write(ORDERS, *orders(100, 50))
    rows = bench.read(
        topic,
        {"table_name": "archive", "filter": "id % 5 = 0 AND positionCaseInsensitive(name, 'OLD') = 1"},
        unbounded={"filter": "id >= 125 AND name ILIKE 'NEW'"},
        count=45,
    )
    assert ids(rows) == [*range(0, 100, 5), *range(125, 150)]


def test_a_table_of_many_pages_is_read_completely(bench):
    bench.database.orders("archive", 0, 3000)
    bench.reading = {"page_size": 500, "sort_key_range": 700}
    topic = bench.topic()
    topic.write(ORDERS, *orders(3000, 1))
    assert ids(bench.read(topic, "archive", count=3001)) == list(range(3001))


def test_a_phase_may_start_in_the_middle_of_its_table(bench):
    bench.database.orders("archive", 0, 100)
    topic = bench.topic()
    topic.write(ORDERS, *orders(100, 1))
    assert ids(bench.read(topic, {"table_name": "archive", "start_at": 95}, count=6)) == list(range(95, 101))


def test_sql_sees_both_parts_and_changes_of_the_topic_keep_their_operation(bench):
    bench.database.orders("archive", 1, 2)
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1, "name": "newer"}, op="u")
    topic.write(ORDERS, {"id": 2, "name": None}, op="d")
    sql = "SELECT id, upper(name) AS name FROM orders"
    assert bench.read(topic, "archive", count=4, sql=sql) == [
        {"id": 1, "name": "OLD", "_gs_op": "i"},
        {"id": 2, "name": "OLD", "_gs_op": "i"},
        {"id": 1, "name": "NEWER", "_gs_op": "u"},
        {"id": 2, "name": None, "_gs_op": "d"},
    ]


@pytest.fixture
def before_each_batch(monkeypatch):
    """Calls a function with the position before every batch of a table."""

    def install(look) -> None:
        def looking(self, spark, position):
            look(position)
            return backfill(self, spark, position)

        backfill = HybridSource.backfill
        monkeypatch.setattr(HybridSource, "backfill", looking)

    return install


def test_rows_that_are_loaded_behind_the_scan_are_not_lost(bench, before_each_batch):
    """The offset after their message is in the offset table, but only since the scan has passed their place."""
    bench.database.orders("archive", 100, 10)
    topic = bench.topic()
    topic.write(ORDERS, *orders(100, 10))
    bench.database.offsets({(topic.name, 0): 10})
    loaded = []

    def load(position) -> None:
        if not loaded and "clickhouse_source:orders:v1" in position:
            loaded.append(True)
            topic.write(ORDERS, *orders(1, 1))
            bench.database.orders("archive", 1, 1)
            bench.database.offsets({(topic.name, 0): 11})

    before_each_batch(load)
    assert ids(bench.read(topic, "archive", count=11)) == [*range(100, 110), 1]
    assert loaded


def test_messages_that_cannot_be_decoded_go_to_the_dead_letter_sink(bench):
    bench.database.orders("archive", 1, 2)
    topic = bench.topic()
    topic.write(ORDERS, *orders(3, 1))
    topic.send(Message(b"not avro"))
    topic.write(ORDERS, *orders(4, 1))
    with bench.running(topic, "archive", errors={"to": "bad"}) as run:
        eventually(lambda: run.rows_written() == {"out": 4, "bad": 1}, 60)
    assert ids(collected_rows(run, "out").to_pylist()) == [1, 2, 3, 4]


# ── what a person sees ──────────────────────────────────────────────────────────────────────────────────────────


def test_progress_is_that_of_the_table_and_then_the_lag_of_the_topic(bench, before_each_batch):
    bench.database.orders("first", 0, 40)
    bench.database.orders("second", 40, 60)
    topic = bench.topic()
    topic.write(ORDERS, *orders(100, 5))
    run = bench.prepare(bench.text(bench.source(topic, "first", "second")))
    seen = []
    before_each_batch(lambda position: seen.append(run.status().progress))
    run.start()
    arrived(run, 105)
    eventually(lambda: run.status().lag == 0, 60)
    after = run.status()
    stop(run)
    shown = dict.fromkeys((progress.part, progress.done, progress.total) for progress in seen if progress is not None)
    assert [part for part in shown if part[1]] == [("first (1 of 2)", 40, 40), ("second (2 of 2)", 60, 60)]
    assert (after.progress, after.rows_in) == (None, 105)


def test_metrics_name_the_tables_and_the_topic(bench):
    bench.database.orders("first", 0, 4)
    bench.database.orders("second", 4, 6)
    topic = bench.topic()
    topic.write(ORDERS, *orders(10, 5))
    labels = {"telemetry": {"labels": {"team": "shop"}}}
    with bench.running(topic, "first", "second", **labels) as run:
        arrived(run, 15)
        eventually(lambda: run.metrics.value("kafka_consumer_messages_lag", "orders", partition="0") == 0, 60)
    (series,) = [one for one in run.metrics.snapshot() if one.name == "output_rows" and one.tags.get("id") == "orders"]
    assert series.tags["topic"] == topic.name
    assert series.tags["table"] == "first,second"
    assert series.tags["team"] == "shop"
    assert run.metrics.value("output_rows", "orders") == 15


def test_checkpoints_continue_at_their_interval_after_the_switch(bench):
    bench.config["checkpoint_interval_sec"] = 1
    bench.database.orders("archive", 0, 10)
    topic = bench.topic()
    topic.write(ORDERS, *orders(10, 1))
    changes: list[tuple[float, int]] = []
    with bench.running(topic, "archive") as run:
        arrived(run, 11)

        def look() -> bool:
            """Write now and then, and note when the stored offset has changed."""
            offset, now = bench.state.get(f"orders:{topic.name}:0")["offset"], time.monotonic()
            if not changes or changes[-1][1] != offset:
                changes.append((now, offset))
                topic.write(ORDERS, *orders(11, 1))
            return len(changes) > 6

        eventually(look, 60)
    assert 0.5 <= median(later - earlier for (earlier, _), (later, _) in pairwise(changes[1:])) <= 3


# ── the job ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_reads_the_tables_and_not_the_topic(bench, caplog):
    caplog.set_level(logging.INFO)
    bench.database.orders("archive", 0, 200)
    topic = bench.topic()
    topic.write(ORDERS, *orders(200, 5))
    assert ids(bench.job(topic, "archive")) == list(range(200))
    assert "waiting for" not in caplog.text
    assert bench.state.get(KEY)["handoff"]["done"] is False
    assert not [key for key in bench.state.items() if key.startswith(f"orders:{topic.name}")]


def test_a_finished_job_says_so_and_does_nothing(bench, caplog):
    caplog.set_level(logging.INFO)
    bench.database.orders("archive", 0, 5)
    topic = bench.topic()
    topic.write(ORDERS, *orders(200, 5))
    bench.job(topic, "archive")
    assert "nothing new" not in caplog.text
    before = bench.state.items()
    bench.database.execute("DROP TABLE archive")
    assert bench.job(topic, "archive") == []
    assert (
        "hybrid source 'orders': nothing new to read, earlier runs have read everything. To read it again: streamling "
        "state reset pipeline.yaml --node orders"
    ) in caplog.messages
    assert bench.state.items() == before


def test_a_job_needs_no_brokers(bench):
    bench.database.orders("archive", 0, 5)
    topic = bench.topic()
    topic.register(ORDERS)
    bench.config["kafka_source"] = {"brokers": "127.0.0.1:1", "schema_registry_url": bench.registry_service.url}
    assert len(bench.job(topic, "archive")) == 5


def test_after_a_job_the_same_pipeline_continues_with_the_topic_without_a_gap(bench):
    """The offsets were recorded when the job began."""
    bench.database.orders("archive", 0, 5)
    topic = bench.topic()
    topic.write(ORDERS, *orders(0, 5))
    bench.database.offsets({(topic.name, 0): 3})
    assert ids(bench.job(topic, "archive")) == list(range(5))
    bench.database.offsets({(topic.name, 0): 5})
    bench.config["job_mode"] = False
    assert ids(bench.read(topic, "archive", count=2)) == [3, 4]


def test_a_job_without_tables_ends_at_once(bench, caplog):
    topic = bench.topic()
    topic.write(ORDERS, *orders(0, 5))
    assert bench.job(topic) == []
    assert "there are no bounded sources, so there is nothing to read in job mode" in caplog.text


# ── wide numbers ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_nullable_128_bit_number_is_widened_to_256_bits(bench):
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 78, "scale": 0}
    schema = record("id", ("amount", ["null", wide], None))
    largest = 2**128 - 1
    bench.database.execute(
        "CREATE TABLE archive (id UInt64, amount Nullable(UInt128)) ENGINE = MergeTree ORDER BY id",
        f"INSERT INTO archive VALUES (1, {largest}), (2, NULL), (3, 0)",
    )
    topic = bench.topic()
    topic.write(schema, {"id": 4, "amount": Decimal(2**255)}, {"id": 5, "amount": None})
    with bench.running(topic, "archive", sql="SELECT id, CAST(amount AS TEXT) AS amount FROM orders") as run:
        arrived(run, 5)
    rows = collected_rows(run, "out").to_pylist()
    assert [row["amount"] for row in rows] == [str(largest), None, "0", str(2**255), None]


# ── what it connects to ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_system_is_checked(bench, spark):
    bench.database.orders("archive", 0, 5)
    topic = bench.topic()
    topic.write(ORDERS, *orders(0, 5))
    bench.database.offsets({(topic.name, 0): 3})
    run = bench.prepare(bench.text(bench.source(topic, "archive", "archive")))
    url, name = bench.database.clickhouse.url, bench.database.name
    found = {one.connection.target: one.connection.check() for one in run.node_declarations.connections(lambda: spark)}
    assert re.fullmatch(r"server [\d.]+, user '\w+'", found.pop(f"{url}, database '{name}'") or "")
    assert found == {
        f"{url}, offset table {name}.kafka_offsets": f"1 partition of the topic '{topic.name}'",
        f"{bench.kafka.brokers}, topic '{topic.name}'": "1 partition",
        f"{bench.registry_service.url}, subject '{topic.name}-value'": f"schema {topic.register(ORDERS)}",
    }


def test_a_reset_also_clears_the_offsets_of_the_group(bench, spark):
    topic = bench.topic()
    topic.write(ORDERS, *orders(0, 5))
    run = bench.prepare(bench.text(bench.source(topic)))
    (position,) = run.node_declarations.external_positions(lambda: spark, None)
    assert f"for the topic '{topic.name}'" in position.what


# ── outages ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def front(bench):
    """A port in front of ClickHouse that can be closed."""
    url = urlsplit(bench.database.clickhouse.url)
    made = TcpFront(url.port or 80).open()
    bench.reading = {"url": f"http://127.0.0.1:{made.port}"}
    yield made
    made.close()


def test_an_outage_before_the_first_table_is_waited_for(bench, front, caplog):
    caplog.set_level(logging.INFO)
    bench.database.orders("archive", 0, 5)
    topic = bench.topic()
    topic.write(ORDERS, *orders(5, 5))
    run = bench.prepare(bench.text(bench.source(topic, "archive")))
    front.close()
    run.start()
    eventually(lambda: "retrying in" in caplog.text)
    front.open()
    arrived(run, 10)
    stop(run)
    assert ids(collected_rows(run, "out").to_pylist()) == list(range(10))
    assert re.search(r"recovered after \d+ failed attempts", caplog.text)


def test_a_stop_during_an_outage_is_a_clean_end(bench, front, caplog):
    bench.database.orders("archive", 0, 5)
    topic = bench.topic()
    topic.write(ORDERS, *orders(5, 5))
    run = bench.prepare(bench.text(bench.source(topic, "archive")))
    front.close()
    run.start()
    eventually(lambda: "retrying in" in caplog.text)
    stop(run)
    assert run.rows_written() == {}


def test_a_broker_outage_at_the_switch_to_the_topic_is_waited_for(bench, before_each_batch, caplog):
    bench.database.orders("archive", 0, 10)
    topic = bench.topic()
    topic.write(ORDERS, *orders(0, 15))
    bench.database.offsets({(topic.name, 0): 10})
    killed = []

    def kill(position) -> None:
        if not killed and "clickhouse_source:orders:v1" in position:  # the table has been read
            killed.append(True)
            bench.kafka.kill()

    before_each_batch(kill)
    run = bench.begin(topic, "archive")
    try:
        eventually(lambda: "retrying in" in caplog.text, 60)
    finally:
        bench.kafka.start()
    arrived(run, 15)
    stop(run)
    assert ids(collected_rows(run, "out").to_pylist()) == list(range(15))
    assert killed
