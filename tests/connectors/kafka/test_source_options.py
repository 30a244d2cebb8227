"""Options of the Kafka source: JSON, filter, metadata, start position, and invalid messages."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.kafka.reader import BUFFER_MESSAGES
from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message, add_partitions, delete_records
from streamling.errors import InvalidPipeline, StreamlingError
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench, Topic, framed, record, rows_in
from tests.harness.pipelines import eventually, finish

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────


def _json(bench: KafkaBench, *values: Any) -> Topic:
    topic = bench.topic()
    topic.send(*(Message(value if isinstance(value, bytes) else json.dumps(value).encode()) for value in values))
    return topic


def test_json_objects_become_rows_with_columns_in_alphabetical_order(bench: KafkaBench) -> None:
    topic = _json(bench, {"name": "a", "id": 1, "unknown": [1]}, {"id": None}, b' {"id": 3}\n')
    table = bench.read(topic, 3, data_format="json", schema={"name": "string", "id": "int64"})
    assert table.to_pylist() == [
        {"id": 1, "name": "a", "_gs_op": "i"},
        {"id": None, "name": None, "_gs_op": "i"},
        {"id": 3, "name": None, "_gs_op": "i"},
    ]


#: type of a column, JSON of a value, the value read
_VALUES: list[tuple[str, str, Any]] = [
    ("int64", "9223372036854775807", 2**63 - 1),
    ("int64", '"12"', 12),
    ("uint64", "18446744073709551615", Decimal(2**64 - 1)),
    ("float64", "0.1", 0.1),
    ("decimal(38,9)", '"12345678901234567890.123456789"', Decimal("12345678901234567890.123456789")),
    ("decimal(38,9)", "12345678901234567890.123456789", Decimal("12345678901234567890.123456789")),
    ("boolean", "true", True),
    ("string", '{"a": [1, 2]}', '{"a":[1,2]}'),
    ("timestamp", '"2024-01-02T03:04:05.678901"', dt.datetime(2024, 1, 2, 3, 4, 5, 678901)),
    ("timestamp", '"2024-01-02T03:04:05+02:00"', dt.datetime(2024, 1, 2, 1, 4, 5)),
    ("date32", '"2024-01-02"', dt.date(2024, 1, 2)),
    ("time64", '"01:02:03.5"', dt.time(1, 2, 3, 500000)),
    ("binary", '"00ff"', b"\x00\xff"),
]


def test_json_values(bench: KafkaBench) -> None:
    names = [f"x{number:02}" for number in range(len(_VALUES))]
    fields = ", ".join(f'"{name}": {text}' for name, (_, text, _) in zip(names, _VALUES, strict=True))
    schema = {name: kind for name, (kind, _, _) in zip(names, _VALUES, strict=True)}
    [row] = bench.rows(_json(bench, f"{{{fields}}}".encode()), 1, data_format="json", schema=schema)
    assert [row[name] for name in names] == [expected for _, _, expected in _VALUES]


def test_an_invalid_json_message_is_named(bench: KafkaBench) -> None:
    """For every kind of them see `test_source_dead_letters.py`."""
    topic = _json(bench, {"id": 1}, b"nonsense")
    with pytest.raises(StreamlingError) as caught:
        bench.rows(topic, 2, data_format="json", schema={"id": "int64"})
    assert "offset 1 is not exactly one JSON object: nonsense" in str(caught.value)
    assert f"topic '{topic.name}', partition 0" in str(caught.value)


# ── filter, metadata ────────────────────────────────────────────────────────────────────────────────────────


#: filter → rows that it keeps
_FILTERS = {
    "id > 60": 40,
    "id > 60 -- a comment": 40,
    "name = 'even'": 50,
    "_gs_xxhash(name) = _gs_xxhash('even')": 50,  # by a Python worker
    "TRY_CAST(name AS INT) IS NULL AND id <= 5": 5,
    "_gs_op = 'i' AND __kafka_offset < 10": 10,
}


def test_a_filter_keeps_the_rows_that_match(bench: KafkaBench) -> None:
    """One source for each filter, all of one topic."""
    topic = bench.topic()
    topic.write(ORDERS, *({"id": n, "name": "odd" if n % 2 else "even"} for n in range(1, 101)))
    topic.write(ORDERS, {"id": 1000, "name": "even"}, op="u")
    source = {"type": "kafka", "topic": topic.name, "include_metadata": True}
    sources = {
        f"rows{number}": {**source, "filter": f"({condition}\n) AND id < 1000"}
        for number, condition in enumerate(_FILTERS)
    }
    sinks = {f"out{number}": {"type": "memory", "from": f"rows{number}"} for number in range(len(sources))}
    run = bench.begin_text(json.dumps({"sources": sources, "transforms": {}, "sinks": sinks}))
    try:
        eventually(lambda: run.failure is not None or rows_in(run) >= sum(_FILTERS.values()), 60)
    finally:
        run.stop("the test has what it wants")
        finish(run)
    found = [collected_rows(run, name).num_rows for name in sinks]
    assert dict(zip(_FILTERS, found, strict=True)) == _FILTERS


def test_a_filter_over_a_missing_column_is_rejected_at_the_start(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.register(ORDERS)
    with pytest.raises(InvalidPipeline, match="filter: there is no column 'nmae'"):
        bench.begin(topic, filter="nmae = 'x'")


def test_metadata_columns(bench: KafkaBench) -> None:
    topic = bench.topic(partitions=2)
    topic.write(ORDERS, {"id": 1}, partition=1, timestamp=1_700_000_000_123)
    table = bench.read(topic, 1, include_metadata=True)
    assert table.select(["__kafka_partition", "__kafka_offset", "__kafka_timestamp"]).to_pylist() == [
        {
            "__kafka_partition": 1,
            "__kafka_offset": 0,
            "__kafka_timestamp": dt.datetime(2023, 11, 14, 22, 13, 20, 123000),
        }
    ]
    assert table.schema.field("__kafka_partition").type == pa.int32()


# ── where to start ──────────────────────────────────────────────────────────────────────────────────────────


def test_start_from_a_time(bench: KafkaBench) -> None:
    topic = bench.topic(partitions=2)
    for partition in (0, 1):
        for second in range(5):
            stamp = 1_700_000_000_000 + second * 1000
            topic.write(ORDERS, {"id": second + 10 * partition}, partition=partition, timestamp=stamp)
    rows = bench.rows(topic, 4, starting_offsets="1700000003000")
    assert sorted(row["id"] for row in rows) == [3, 4, 13, 14]


def test_start_from_the_end_is_stored_immediately(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    run = bench.begin(topic, starting_offsets="latest")
    eventually(lambda: bench.state.get_prefix("rows:"))
    run.stop("before the first batch")
    finish(run)
    topic.write(ORDERS, {"id": 2})
    assert [row["id"] for row in bench.rows(topic, 1, starting_offsets="latest")] == [2]


def test_a_partition_that_is_added_is_read_from_its_beginning(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    run = bench.begin(topic)
    eventually(lambda: rows_in(run) == 1)
    add_partitions(topic.kafka.brokers, topic.name, 2)
    topic.write(ORDERS, {"id": 2}, partition=1)
    assert [row["id"] for row in bench.collected(run, 2)] == [1, 2]
    assert bench.state.get(f"rows:{topic.name}:1")["offset"] == 1

    add_partitions(topic.kafka.brokers, topic.name, 3)
    topic.write(ORDERS, {"id": 3}, partition=2)
    assert [row["id"] for row in bench.rows(topic, 1, starting_offsets="latest")] == [3]


def test_messages_deleted_while_the_pipeline_was_down_are_an_error(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, *({"id": n} for n in range(10)))
    bench.state.put(f"rows:{topic.name}:0", {"offset": 3, "updated_at": 1})
    delete_records(topic.kafka.brokers, topic.name, {0: 5})
    with pytest.raises(StreamlingError, match=r"starts at offset 5.*2 messages were deleted before they were read"):
        bench.rows(topic, 1)


def test_a_recreated_topic_is_an_error(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    bench.state.put(f"rows:{topic.name}:0", {"offset": 3, "updated_at": 1})
    with pytest.raises(StreamlingError, match=r"ends at offset 1.*recreated"):
        bench.rows(topic, 1)


def test_small_batches(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, *({"id": n} for n in range(10)))
    run = bench.begin(topic, batch_size=4)
    assert [row["id"] for row in bench.collected(run, 10)] == list(range(10))
    assert [batch.num_rows for batch in run.graph.operators["out"][0].batches] == [4, 4, 2]


@pytest.mark.parametrize(("parallelism", "tasks"), [(None, 3), (2, 2), (7, 3)])
def test_parallelism_limits_the_tasks_that_read(bench: KafkaBench, parallelism: int | None, tasks: int) -> None:
    topic, count = bench.topic(partitions=3), BUFFER_MESSAGES  # more than the driver reads by itself
    for partition in range(3):
        topic.write(ORDERS, *({"id": count * partition + n} for n in range(count)), partition=partition)
    sql = "SELECT id, spark_partition_id() AS task FROM rows"
    options = {} if parallelism is None else {"parallelism": parallelism}
    rows = bench.rows(topic, 3 * count, sql, **options)
    assert len({row["task"] for row in rows}) == tasks
    for partition in range(3):
        ids = [row["id"] for row in rows if row["id"] // count == partition]
        assert ids == sorted(ids)
        assert len(ids) == count


_BYTES, _UUID = "bytes", {"type": "string", "logicalType": "uuid"}
_DAY = {"type": "int", "logicalType": "date"}


# ── invalid messages ───────────────────────────────────────────────────────────────────────────────


def test_a_message_without_the_wire_format_is_named(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    topic.send(Message(b"{}"))
    with pytest.raises(StreamlingError, match="partition 0, offset 1 is not Avro in a schema registry's wire format"):
        bench.rows(topic, 2)


def test_a_tombstone_deletes_the_row_of_its_key(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 7, "name": "a"})
    keys = [b"7", b'{"id": 8}', b'{"schema": {}, "payload": {"id": 9}}']
    topic.send(*(Message(None, key=key) for key in keys))
    assert bench.rows(topic, 4)[1:] == [{"id": id, "name": None, "_gs_op": "d"} for id in (7, 8, 9)]


def test_a_tombstone_with_a_key_of_two_columns(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.register(record("a", ("b", "string"), "c"))
    topic.send(Message(None, key=b"1:x"), Message(None, key=b'{"a": 2, "b": "y:z"}'))
    rows = bench.rows(topic, 2, primary_key="a, b")
    assert rows == [{"a": 1, "b": "x", "c": None, "_gs_op": "d"}, {"a": 2, "b": "y:z", "c": None, "_gs_op": "d"}]


def test_a_tombstone_whose_key_is_avro(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.register(record(("a", "long"), ("b", _BYTES), ("c", _UUID), ("d", _DAY), "e"))
    old = record(("a", "int"), ("b", _BYTES), ("c", _UUID), ("d", _DAY))
    new = record(("d", ["null", _DAY]), ("c", _UUID), ("b", ["bytes", "null"]), ("a", "long"))
    key = {"a": 1, "b": b"\xab\xcd\xef", "c": uuid.UUID(int=7), "d": dt.date(2024, 2, 29)}
    for schema in (old, new):
        id = topic.registry.register(f"{topic.name}-key", schema)
        topic.send(Message(None, key=framed(id, schema, key)))
    row = {**key, "c": uuid.UUID(int=7).bytes, "e": None, "_gs_op": "d"}
    assert bench.rows(topic, 2, primary_key="a, b, c, d") == [row, row]


def test_a_tombstone_whose_key_is_one_avro_value(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.register(ORDERS)
    for schema, key in (("long", 7), ({"type": "int"}, 8), ("string", "9")):
        id = topic.registry.register(f"{topic.name}-key", schema)
        topic.send(Message(None, key=framed(id, schema, key)))
    assert bench.rows(topic, 3) == [{"id": id, "name": None, "_gs_op": "d"} for id in (7, 8, 9)]


def test_a_tombstone_in_a_json_topic(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.send(Message(None, key=b"abc"))
    rows = bench.rows(topic, 1, data_format="json", schema={"id": "string", "n": "int64"}, primary_key="id")
    assert rows == [{"id": "abc", "n": None, "_gs_op": "d"}]


@pytest.mark.parametrize(
    ("schema", "key", "message"),
    [
        (ORDERS, b"abc", "offset 0 is a tombstone .* its key abc does not contain the primary key"),
        (ORDERS, b"\0\0\1\x86\x9f\2", "offset 0 has a key that was written with schema 99999: .*has no entry"),
        (record("id"), b"1", "offset 0 is a tombstone .* no primary key is known"),
    ],
)
def test_a_tombstone_without_the_key_is_an_error(bench: KafkaBench, schema: Any, key: bytes, message: str) -> None:
    topic = bench.topic()
    topic.register(schema)
    topic.send(Message(None, key=key))
    with pytest.raises(StreamlingError, match=message):
        bench.rows(topic, 1)
