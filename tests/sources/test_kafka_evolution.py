"""Schemas that change while the source runs, and ways to decode. Generations: tests/flagship/test_schema_evolution."""

from __future__ import annotations

import pytest

from streamling.errors import StreamlingError
from tests.engine.harness import eventually
from tests.sources.kafka_driver import KafkaBench, record, rows_in

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


def test_columns_that_are_named_stay_the_same_when_a_new_one_appears(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    run = bench.begin(topic, "SELECT id FROM rows")
    eventually(lambda: rows_in(run) == 1)
    topic.write(record("id", ("n", "int", 7)), {"id": 2, "n": 9})
    assert bench.drained(run, 2).column("id").to_pylist() == [1, 2]


def test_a_schema_id_is_replaced_by_another(bench: KafkaBench) -> None:
    topic, other = bench.topic(), bench.topic()
    right = topic.register(record(("id", "long"), ("s", "string")))
    wrong = other.register(record(("s", "string"), ("id", "long")))
    from streamling.dev.topics import Message
    from tests.sources.kafka_driver import framed

    topic.send(Message(framed(wrong, record(("id", "long"), ("s", "string")), {"id": 3, "s": "x"})))
    rows = bench.rows(topic, 1, schema_id_overrides=[{"from": wrong, "to": right}])
    assert rows == [{"id": 3, "s": "x", "_gs_op": "i"}]


def test_without_resolution_the_writers_columns_are_taken_by_name(bench: KafkaBench) -> None:
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
    from streamling.dev.topics import Message

    topic.send(Message(b"\0" + (99_999).to_bytes(4, "big") + b"\x02"))
    with pytest.raises(StreamlingError, match="partition 0, offset 1 was written with schema 99999"):
        bench.rows(topic, 2)
