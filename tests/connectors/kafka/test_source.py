"""The Kafka source against a real broker and registry, rows collected by the memory sink."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamling.dev.services.topics import Message
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench, framed, record, rows_in
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


# ── rows and positions ──────────────────────────────────────────────────────────────────────────────────────


def test_avro_messages_become_rows(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1, "name": "a"}, {"id": 2, "name": None})
    table = bench.read(topic, 2)
    assert table.to_pylist() == [{"id": 1, "name": "a", "_gs_op": "i"}, {"id": 2, "name": None, "_gs_op": "i"}]
    assert table.schema.types == [pa.int64(), pa.string(), pa.string()]


def test_the_header_has_the_operation(bench: KafkaBench) -> None:
    topic = bench.topic()
    for op in "crudUD":
        topic.write(ORDERS, {"id": 1, "name": "a"}, op=op)
    assert [row["_gs_op"] for row in bench.rows(topic, 6)] == ["i", "i", "u", "d", "u", "d"]


def test_a_batch_that_several_tasks_read_keeps_its_order(bench: KafkaBench) -> None:
    topic = bench.topic()
    schema = record("id")
    id = topic.register(schema)
    topic.send(*(Message(framed(id, schema, {"id": number})) for number in range(60_000)))
    run = bench.begin(topic, batch_size=60_000)
    assert [row["id"] for row in bench.collected(run, 60_000)] == list(range(60_000))


def test_a_restart_continues_at_the_stored_position(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1}, {"id": 2})
    assert len(bench.rows(topic, 2)) == 2
    stored = bench.state.get_prefix(f"rows:{topic.name}:")
    assert stored[f"rows:{topic.name}:0"]["offset"] == 2
    assert stored[f"rows:{topic.name}:0"]["updated_at"] > 1_600_000_000_000

    topic.write(ORDERS, {"id": 3})
    assert [row["id"] for row in bench.rows(topic, 1)] == [3]


def test_a_schema_that_appears_while_running_is_loaded(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    run = bench.begin(topic, "SELECT * FROM rows")
    eventually(lambda: rows_in(run) == 1)
    topic.write(record("id", ("extra", "string", "none")), {"id": 2, "extra": "x"})
    topic.write(record("id"), {"id": 3})
    assert bench.collected(run, 3) == [
        {"id": 1, "_gs_op": "i"},
        {"id": 2, "extra": "x", "_gs_op": "i"},
        {"id": 3, "extra": "none", "_gs_op": "i"},
    ]


def test_an_unknown_operation_names_the_message(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(ORDERS, {"id": 1})
    topic.write(ORDERS, {"id": 2}, op="x")
    place = f"topic '{topic.name}', partition 0, offset 1 has the header dbz.op = 'x'"
    with pytest.raises(StreamlingError, match=place):
        bench.rows(topic, 2)


def test_a_truncated_message_is_named(bench: KafkaBench) -> None:
    topic = bench.topic()
    id = topic.write(ORDERS, {"id": 1, "name": "a"})
    topic.send(Message(b"\0" + id.to_bytes(4, "big") + b"\x02\x02\x50"))
    with pytest.raises(StreamlingError, match=r"partition 0, offset 1 cannot be decoded.*truncated"):
        bench.rows(topic, 2)
