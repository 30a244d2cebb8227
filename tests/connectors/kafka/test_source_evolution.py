"""Schemas that change while the source runs, and decoding options. Generations:
tests/flagship/test_schema_evolution."""

from __future__ import annotations

import threading

import pytest

from streamling.dev.services.topics import Message
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import KafkaBench, at_any_latency, framed, record, rows_in
from tests.harness.pipelines import eventually
from tests.harness.proxy import watched

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def test_a_newer_writer_keeps_the_old_columns_when_ordering_is_not_validated(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    run = bench.begin(topic, validate_writer_schema_ordering=False)
    eventually(lambda: rows_in(run) == 1)
    topic.write(record("id", ("n", "int", 7)), {"id": 2, "n": 9})
    assert bench.collected(run, 2) == [{"id": 1, "_gs_op": "i"}, {"id": 2, "_gs_op": "i"}]


@at_any_latency
def test_columns_that_are_named_stay_the_same_when_a_new_one_appears(bench: KafkaBench, latency: str) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    run = bench.begin(topic, "SELECT id FROM rows", latency=latency)
    eventually(lambda: rows_in(run) == 1)
    topic.write(record("id", ("n", "int", 7)), {"id": 2, "n": 9})
    assert bench.drained(run, 2).column("id").to_pylist() == [1, 2]


def test_a_schema_id_is_replaced_by_another(bench: KafkaBench) -> None:
    topic, other = bench.topic(), bench.topic()
    right = topic.register(record(("id", "long"), ("s", "string")))
    wrong = other.register(record(("s", "string"), ("id", "long")))
    topic.send(Message(framed(wrong, record(("id", "long"), ("s", "string")), {"id": 3, "s": "x"})))
    rows = bench.rows(topic, 1, schema_id_overrides=[{"from": wrong, "to": right}])
    assert rows == [{"id": 3, "s": "x", "_gs_op": "i"}]


def test_without_resolution_the_writers_columns_are_matched_by_name(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id", ("s", "string"), name="first"), {"id": 1, "s": "x"})
    topic.write(record(("id", "long"), ("n", "int", 7), name="first"), {"id": 2, "n": 4})
    rows = bench.rows(topic, 2, skip_schema_resolution=True)
    assert rows == [{"id": 1, "n": None, "_gs_op": "i"}, {"id": 2, "n": 4, "_gs_op": "i"}]


@pytest.mark.parametrize(("listed", "n"), [(True, None), (False, 7)])
def test_resolution_is_skipped_for_readers_that_are_listed(bench: KafkaBench, listed: bool, n: int | None) -> None:
    topic = bench.topic()
    topic.write(record("id", ("s", "string"), name="first"), {"id": 1, "s": "x"})
    reader = topic.write(record(("id", "long"), ("n", "int", 7), name="first"), {"id": 2, "n": 4})
    rows = bench.rows(topic, 2, skip_schema_resolution_for_reader_schema_ids=[reader if listed else reader + 1000])
    assert rows == [{"id": 1, "n": n, "_gs_op": "i"}, {"id": 2, "n": 4, "_gs_op": "i"}]


def test_a_schema_that_the_registry_does_not_know_names_the_message(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    topic.send(Message(b"\0" + (99_999).to_bytes(4, "big") + b"\x02"))
    with pytest.raises(StreamlingError, match="partition 0, offset 1 was written with schema 99999"):
        bench.rows(topic, 2)


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_schema_registered_while_the_pipeline_starts_loses_no_column(bench: KafkaBench, moment: int) -> None:
    """Add a column and widen another one right before the nth request to the registry."""
    topic = bench.topic()
    topic.write(record("id", ("n", "int")), {"id": 1, "n": 1})
    changed = threading.Event()

    def change(number: int) -> None:
        if number == moment and not changed.is_set():
            changed.set()
            topic.write(record("id", ("n", "long"), ("extra", "string", "none")), {"id": 2, "n": 2**40, "extra": "x"})

    with watched(topic.url, change) as url:
        bench.settings["schema_registry_url"] = url
        run = bench.begin(topic)
        change(moment)  # a start with fewer requests has finished by now
        rows = bench.collected(run, 2)
    assert rows[0] in ({"id": 1, "n": 1, "_gs_op": "i"}, {"id": 1, "n": 1, "extra": "none", "_gs_op": "i"})
    assert rows[1] == {"id": 2, "n": 2**40, "extra": "x", "_gs_op": "i"}


def test_a_type_that_the_old_reader_cannot_hold_is_reported_with_both_schemas(bench: KafkaBench) -> None:
    topic = bench.topic()
    reader = topic.write(record(("id", "int")), {"id": 1})
    run = bench.begin(topic, validate_writer_schema_ordering=False)
    eventually(lambda: rows_in(run) == 1)
    writer = topic.write(record(("id", "long")), {"id": 2**40})
    said = f"offset 1 cannot be decoded with schema {writer}, read as schema {reader}: it is truncated or corrupt, or "
    with pytest.raises(StreamlingError, match=said):
        bench.collected(run, 2)
