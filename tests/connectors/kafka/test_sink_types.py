"""Every Avro type through a pipeline from Kafka to Kafka: the bytes written are the bytes read."""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from streamling.connectors.kafka.config import KafkaSinkSettings, KafkaSourceSettings
from streamling.dev.services.topics import Message, consume, create_topic, end_offsets, produce
from tests.connectors.kafka.sink_driver import KafkaSinkBench, record
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]

_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.UTC)
_ID = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")


def _logical(base: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": logical, **more}


def _decimal(precision: int, scale: int = 0) -> dict[str, Any]:
    return _logical("bytes", "decimal", precision=precision, scale=scale)


_TYPES: list[tuple[Any, Any]] = [
    ("boolean", True),
    ("int", -(2**31)),
    ("long", 2**63 - 1),
    ("float", 1.5),
    ("double", 5e-324),
    ("bytes", b"\x00\xff"),
    ("string", "O'Reilly; \n\t\x01 \N{GRINNING FACE} e\u0301"),
    ({"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}, "BLUE"),
    ({"type": "fixed", "name": "four", "size": 4}, b"abcd"),
    (_logical("string", "uuid"), _ID),
    (_logical("bytes", "decimal", precision=38, scale=10), Decimal("-1234567890123456789012345678.0123456789")),
    (_logical("fixed", "decimal", name="money", size=9, precision=20, scale=4), Decimal("1.5")),
    (_decimal(76, 10), Decimal(f"{1 - 10**76}e-10")),
    (_decimal(78), Decimal(2**256 - 1)),
    (_decimal(78), Decimal(0)),
    ({**_decimal(77), "streamling.type": "i256"}, Decimal(1 - 2**255)),
    ({**_decimal(77), "streamling.type": "i256"}, Decimal(-1)),
    (_decimal(1000, 999), Decimal(f"{10**1000 - 1}e-999")),
    ({**_decimal(78), "type": "fixed", "name": "wide", "size": 40}, Decimal(2**256 - 1)),
    ({**_decimal(90, 1), "type": "fixed", "name": "wider", "size": 60}, Decimal("-1.5")),
    (["null", _decimal(78)], None),
    ({"type": "array", "items": ["null", _decimal(78)]}, [Decimal(2**256 - 1), None]),
    ({"type": "map", "values": _decimal(80, 2)}, {"a": Decimal("-0.01")}),
    (record(("x", "long"), ("wide", _decimal(78)), name="with_wide"), {"x": 1, "wide": Decimal(2**255)}),
    (_logical("int", "date"), dt.date(1969, 7, 20)),
    (_logical("int", "time-millis"), dt.time(23, 59, 59, 999000)),
    (_logical("long", "time-micros"), dt.time(0, 0, 0, 1)),
    (_logical("long", "timestamp-millis"), _NOON),
    (_logical("long", "timestamp-micros"), _NOON),
    (_logical("long", "local-timestamp-millis"), _NOON.replace(tzinfo=None)),
    (_logical("long", "local-timestamp-micros"), _NOON.replace(tzinfo=None)),
    (_logical("long", "timestamp-nanos"), -1000),
    ({"type": "array", "items": ["null", "long"]}, [1, None]),
    ({"type": "array", "items": _logical("int", "time-millis")}, [dt.time(1)]),
    ({"type": "map", "values": _logical("string", "uuid")}, {"a": _ID}),
    (record(("x", "long"), ("at", _logical("long", "timestamp-millis")), name="inner"), {"x": 1, "at": _NOON}),
    (record(("x", ["null", "int"]), ("id", _logical("string", "uuid")), name="second"), {"x": None, "id": _ID}),
    (["null", "inner"], {"x": 2, "at": _NOON}),
    (["null", "string"], None),
    (["string", "null"], "x"),
    (["int", "long"], 2**40),
    (["null", "long", "string"], "x"),
    (["null", "long", "string"], None),
]
_SCHEMA = record(("id", "long"), *((f"c{number}", avro) for number, (avro, _) in enumerate(_TYPES)))
_ROW = {"id": 1, **{f"c{number}": value for number, (_, value) in enumerate(_TYPES)}}


class Copying(KafkaSinkBench):
    """Pipelines from one topic to another."""

    def copy(self, source: str, target: str, count: int, sql: str | None = None, **options: Any) -> list[Message]:
        sink = {"type": "kafka", "topic": target, "data_format": "avro", "from": "shaped" if sql else "rows", **options}
        transforms = {"shaped": {"type": "sql", "primary_key": "id", "sql": sql}} if sql else {}
        sources = {"rows": {"type": "kafka", "topic": source, "primary_key": "id"}}
        place = {"brokers": self.kafka.brokers, "schema_registry_url": self.url}
        text = json.dumps({"sources": sources, "transforms": transforms, "sinks": {"out": sink}})
        run = self.start(text, kafka_source=KafkaSourceSettings(**place), kafka_sink=KafkaSinkSettings(**place))
        try:
            ended = lambda: sum(end_offsets(self.kafka.brokers, target).values()) >= count  # noqa: E731
            eventually(lambda: run.failure is not None or ended(), 60)
        finally:
            run.stop("the test has what it wants")
            finish(run)
        assert run.rows_written() == {"out": count}
        return list(consume(self.kafka.brokers, target))

    def filled(self, schema: Any, *rows: Any) -> str:
        """Create a topic with these rows, written by fastavro."""
        topic = self.create(self.topic(), schema=schema)
        id = self.schemas.register(f"{topic}-value", schema)
        produce(self.kafka.brokers, topic, [Message(_framed(id, schema, row)) for row in rows])
        return topic


def _framed(id: int, schema: Any, row: Any) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), row)
    return b"\0" + id.to_bytes(4, "big") + out.getvalue()


@pytest.fixture
def bench(spark, kafka, registry) -> Copying:
    return Copying(spark, kafka, registry)


def test_with_the_same_schema_the_same_bytes_are_written(bench: Copying) -> None:
    source = bench.filled(_SCHEMA, _ROW)
    target = bench.create(bench.topic(), schema=_SCHEMA)
    (message,) = bench.copy(source, target, 1)
    expected = _framed(bench.schemas.register(f"{target}-value", _SCHEMA), _SCHEMA, _ROW)
    assert message.value == expected
    assert (message.key, message.header("dbz.op")) == (b"1", b"c")


def test_with_the_sinks_own_schema_the_same_values_are_written(bench: Copying) -> None:
    source, target = bench.filled(_SCHEMA, _ROW), bench.topic()
    create_topic(bench.kafka.brokers, target)
    (message,) = bench.copy(source, target, 1)
    found = bench.row(message)
    for number, (avro, value) in enumerate(_TYPES):
        assert found[f"c{number}"] == _plain(avro, value), avro
    again = bench.topic()
    create_topic(bench.kafka.brokers, again)
    (copied,) = bench.copy(target, again, 1)
    assert bench.row(copied) == found


def _plain(avro: Any, value: Any) -> Any:
    """Return the value in a schema without enums, uuids, nanoseconds, and unions of several types."""
    if value == -1000:
        return dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
    if avro == ["null", "long", "string"]:
        return value and {"member0": None, "member1": value}
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dict):
        return {name: _plain(_logical("long", "timestamp-millis"), item) for name, item in value.items()}
    if isinstance(value, dt.datetime):
        micros = "micros" in avro["logicalType"]
        return value.replace(tzinfo=dt.UTC, microsecond=value.microsecond if micros else 123000)
    return value


def test_times_with_a_zone_and_wider_numbers_fit(bench: Copying) -> None:
    sql = """SELECT id, to_timestamp_ltz('2024-02-29 12:00:00.123456') AS a, id AS b, CAST(id AS DECIMAL(5, 1)) AS c
        FROM rows"""
    source = bench.filled(record(("id", "long")), {"id": 7})
    fields = [
        ("a", _logical("long", "timestamp-micros")),
        ("b", "long"),
        ("c", _logical("bytes", "decimal", precision=9, scale=2)),
    ]
    target = bench.create(bench.topic(), schema=record(("id", "long"), *fields))
    (message,) = bench.copy(source, target, 1, sql)
    assert bench.row(message) == {"id": 7, "a": _NOON, "b": 7, "c": Decimal("7.00"), "_gs_op": "i"}


def test_changes_survive_two_topics_with_the_schema_of_the_sink(bench: Copying) -> None:
    """Columns that the source requires stay required; a tombstone, which has none of them, stays a tombstone."""
    schema = record(("id", "long"), ("v", "long"), ("s", ["null", "string"], None))
    topic = bench.create(bench.topic(), schema=schema)
    id = bench.schemas.register(f"{topic}-value", schema)
    sent = [({"id": 1, "v": 11, "s": "a"}, b"c"), ({"id": 1, "v": 12, "s": None}, b"u"), ({"id": 2, "v": 1}, b"d")]
    values = [Message(_framed(id, schema, row), headers=(("dbz.op", op),)) for row, op in sent]
    produce(bench.kafka.brokers, topic, [*values, Message(None, key=b"3")])
    first, second = bench.topic(), bench.topic()
    for target in (first, second):
        create_topic(bench.kafka.brokers, target)
    bench.copy(topic, first, 4, deduplicate=False)
    found = bench.copy(first, second, 4, deduplicate=False)
    latest = json.loads(bench.schemas.ask(f"/subjects/{second}-value/versions/latest")["schema"])[1]
    assert [(field["name"], field["type"]) for field in latest["fields"]] == [
        ("id", "long"),
        ("v", "long"),
        ("s", ["null", "string"]),
        ("_gs_op", "string"),
    ]
    assert [bench.row(message) for message in found[:3]] == [
        {"id": 1, "v": 11, "s": "a", "_gs_op": "i"},
        {"id": 1, "v": 12, "s": None, "_gs_op": "u"},
        {"id": 2, "v": 1, "s": None, "_gs_op": "d"},
    ]
    assert (found[3].key, found[3].value, found[3].header("dbz.op")) == (b"3", None, b"d")


def test_operations_and_nulls_survive_a_round_trip(bench: Copying) -> None:
    schema = record(("id", "long"), ("name", ["null", "string"], None), doc=json.dumps({"primaryKeys": ["id"]}))
    topic = bench.create(bench.topic(), schema=schema)
    id = bench.schemas.register(f"{topic}-value", schema)
    sent = [(1, "a", b"c"), (2, None, b"u"), (3, "c", b"d")]
    values = [Message(_framed(id, schema, {"id": n, "name": name}), headers=(("dbz.op", op),)) for n, name, op in sent]
    tombstone = Message(None, key=b"4")
    produce(bench.kafka.brokers, topic, [*values, tombstone])
    target = bench.topic()
    create_topic(bench.kafka.brokers, target)
    found = [bench.row(message) for message in bench.copy(topic, target, 4)]
    assert [(row["id"], row["name"], row["_gs_op"]) for row in found] == [
        (1, "a", "i"),
        (2, None, "u"),
        (3, "c", "d"),
        (4, None, "d"),
    ]
