"""Schemas that change: messages of several generations in one topic, read with the latest schema."""

from __future__ import annotations

from typing import Any

import pytest

from streamling.errors import StreamlingError
from tests.engine.harness import eventually
from tests.sources.kafka_driver import KafkaBench, record, rows_in

pytestmark = [pytest.mark.spark, pytest.mark.services]

_TEXT = ["null", "string"]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


#: name → generations (schema and row), and the rows read with the last schema
_CASES: dict[str, tuple[list[tuple[Any, dict[str, Any]]], list[dict[str, Any]]]] = {
    "a nullable field is added": (
        [(record("id"), {"id": 1}), (record("id", ("n", _TEXT, None)), {"id": 2, "n": "x"})],
        [{"id": 1, "n": None}, {"id": 2, "n": "x"}],
    ),
    "a field with a default is added": (
        [(record("id"), {"id": 1}), (record("id", ("n", "int", 7)), {"id": 2, "n": 8})],
        [{"id": 1, "n": 7}, {"id": 2, "n": 8}],
    ),
    "a field is removed": (
        [(record("id", "gone"), {"id": 1, "gone": 5}), (record("id"), {"id": 2})],
        [{"id": 1}, {"id": 2}],
    ),
    "int becomes long": (
        [(record(("id", "int")), {"id": -5}), (record(("id", "long")), {"id": 2**40})],
        [{"id": -5}, {"id": 2**40}],
    ),
    "float becomes double": (
        [(record(("x", "float")), {"x": 0.5}), (record(("x", "double")), {"x": 0.1})],
        [{"x": 0.5}, {"x": 0.1}],
    ),
    "fields are matched by name": (
        [
            (record(("a", "string"), ("b", "string")), {"a": "A", "b": "B"}),
            (record(("b", "string"), ("a", "string")), {"a": "C", "b": "D"}),
        ],
        [{"b": "B", "a": "A"}, {"b": "D", "a": "C"}],
    ),
    "two fields are added": (
        [(record("id"), {"id": 1}), (record("id", ("p", _TEXT, None), ("q", "int", 3)), {"id": 2, "p": "x", "q": 4})],
        [{"id": 1, "p": None, "q": 3}, {"id": 2, "p": "x", "q": 4}],
    ),
    "a required field becomes nullable": (
        [(record(("s", "string")), {"s": "x"}), (record(("s", _TEXT)), {"s": None})],
        [{"s": "x"}, {"s": None}],
    ),
    "an explicit null is no default": (
        [(record("id"), {"id": 1}), (record("id", ("n", ["string", "null"], "dflt")), {"id": 2, "n": None})],
        [{"id": 1, "n": "dflt"}, {"id": 2, "n": None}],
    ),
    "a field is renamed": (
        [
            (record("id", ("old", _TEXT, None)), {"id": 1, "old": "x"}),
            (record("id", ("new", _TEXT, None)), {"id": 2, "new": "y"}),
        ],
        [{"id": 1, "new": None}, {"id": 2, "new": "y"}],
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_evolution(bench: KafkaBench, case: str) -> None:
    generations, expected = _CASES[case]
    topic = bench.topic()
    for schema, row in generations:
        topic.write(schema, row)
    assert bench.rows(topic, len(expected)) == [{**row, "_gs_op": "i"} for row in expected]


def test_generations_alternate_within_one_batch(bench: KafkaBench) -> None:
    old, new = record("id"), record("id", ("n", "int", 7))
    topic = bench.topic()
    for number in range(12):
        if number % 2:
            topic.write(new, {"id": number, "n": number})
        else:
            topic.write(old, {"id": number})
    rows = bench.rows(topic, 12)
    assert [(row["id"], row["n"]) for row in rows] == [(n, n if n % 2 else 7) for n in range(12)]


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


def test_a_schema_that_the_registry_does_not_know_names_the_message(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    from streamling.dev.topics import Message

    topic.send(Message(b"\0" + (99_999).to_bytes(4, "big") + b"\x02"))
    with pytest.raises(StreamlingError, match="partition 0, offset 1 was written with schema 99999"):
        bench.rows(topic, 2)
