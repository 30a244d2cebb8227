"""Invalid messages go to the dead-letter sink, and the pipeline continues."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message, consume
from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench, Topic, framed, record
from tests.connectors.postgres.driver import Driver
from tests.harness.pipelines import LedgerSink

pytestmark = [pytest.mark.spark, pytest.mark.services]

ERRORS = {"to": "bad"}


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


def sifted(bench: KafkaBench, topic: Topic, count: int, **options: Any) -> tuple[list[dict[str, Any]], Any]:
    """Return good and bad rows, when there are ``count`` of them together."""
    run = bench.begin(topic, errors=ERRORS, **options)
    good = bench.collected(run, count)
    return good, collected_rows(run, "bad").to_pylist()


def errors_of(bad: list[dict[str, Any]], topic: Topic) -> dict[int, str]:
    """Return the error by offset."""
    assert all(row["node"] == "rows" and row["_gs_op"] == "i" for row in bad)
    assert len({row["id"] for row in bad}) == len(bad)
    return {int(row["position"].removeprefix(f"{topic.name}/0/")): row["error"] for row in bad}


@pytest.mark.parametrize("skips", [False, True], ids=["resolved", "without resolution"])
def test_invalid_avro_messages(bench: KafkaBench, skips: bool) -> None:
    topic = bench.topic()
    id = topic.write(ORDERS, {"id": 1, "name": "a"})
    whole = framed(id, ORDERS, {"id": 2, "name": "a longer text " * 10})
    op = (("dbz.op", b"x"),)
    topic.send(
        Message(whole[:-3], key=b"2"),
        Message(b"\x01" + whole[1:]),
        Message(b'{"id": 3}'),
        Message(framed(99999, ORDERS, {"id": 4})),
        Message(framed(id, ORDERS, {"id": 5}), headers=op),
        Message(None, key=b"no number"),
        Message(None),
        Message(None, key=b"\0\0\1\x86\x9f\2"),
        Message(None, key=b"1"),
        Message(None, key=b'{"other": 1}'),
        Message(b"\x00\x01"),
        Message(b""),
    )
    good, bad = sifted(bench, topic, 13, skip_schema_resolution=skips)

    assert good == [{"id": 1, "name": "a", "_gs_op": "i"}, {"id": 1, "name": None, "_gs_op": "d"}]
    found = errors_of(bad, topic)
    expected = {
        1: "cannot be decoded with schema",
        2: "is not Avro in a schema registry's wire format; it starts with the bytes 01",
        3: "it starts with the bytes 7B22696422",
        4: "was written with schema 99999, which the schema registry does not have",
        5: "has the header dbz.op = 'x', expected one of r, c, u, d",
        6: "its key no number does not contain the primary key",
        7: "does not contain the primary key",
        8: "does not contain the primary key",
        10: "does not contain the primary key",
        11: "is not Avro in a schema registry's wire format",
        12: "is not Avro in a schema registry's wire format",
    }
    assert found.keys() == expected.keys()
    assert [offset for offset, text in expected.items() if text not in found[offset]] == [], found
    payloads = {row["position"].rpartition("/")[2]: json.loads(row["payload"]) for row in bad}
    assert payloads["1"] == {"key": "2", "value_base64": base64.b64encode(whole[:-3]).decode()}
    assert payloads["3"]["value"] == '{"id": 3}'
    assert payloads["5"]["headers"] == [{"key": "dbz.op", "value": "x"}]


def test_a_tombstone_without_a_primary_key(bench: KafkaBench) -> None:
    topic = bench.topic()
    topic.write(record("id"), {"id": 1})
    topic.send(Message(None, key=b"1"))
    good, bad = sifted(bench, topic, 2)
    assert [row["id"] for row in good] == [1]
    assert "is a tombstone (it has no value), but no primary key is known" in errors_of(bad, topic)[1]


def test_invalid_json_messages_and_the_filter_only_sees_rows(bench: KafkaBench) -> None:
    topic = bench.topic()
    values = [
        b'{"id": 1}',
        b"nonsense",
        b'{"id": 2',
        b"",
        b'{"id": "\xff"}',
        b'{"id": "x"}',
        b'{"wide": 1.5}',
        b'{"id": 9}',
        b"[1]",
        b'{"id": 9223372036854775808}',
    ]
    topic.send(*map(Message, values))
    schema = {"id": "int64", "wide": "u256"}
    good, bad = sifted(bench, topic, 9, data_format="json", schema=schema, filter="id < 5", include_metadata=True)

    assert [(row["id"], row["__kafka_offset"]) for row in good] == [(1, 0)]
    expected = {
        1: "is not exactly one JSON object: nonsense",
        2: 'is not exactly one JSON object: {"id": 2',
        3: "is not exactly one JSON object: ",
        4: "is not exactly one JSON object: it is not UTF-8",
        5: "has a value that does not fit its column's type: id = x",
        6: "has a value that does not fit its column's type: wide = 1.5",
        8: "is not exactly one JSON object",
        9: "has a value that does not fit its column's type: id = 9223372036854775808",
    }
    found = errors_of(bad, topic)
    assert found.keys() == expected.keys()
    assert [offset for offset, text in expected.items() if text not in found[offset]] == [], found


# ── sinks that take them ────────────────────────────────────────────────────────────────────────────────────


def _some_bad(bench: KafkaBench) -> Topic:
    topic = bench.topic()
    topic.send(*(Message(f'{{"id": {n}}}'.encode()) for n in range(4)), Message(b"x"), Message(b"y"))
    return topic


JSON_IDS = {"data_format": "json", "schema": {"id": "int64"}, "primary_key": "id"}


def test_a_postgres_table_has_each_bad_row_once_however_often_it_is_replayed(bench: KafkaBench, postgres) -> None:
    table = Driver(postgres.dsn)
    bench.sections["postgres_sink"] = table.settings
    bench.dead_letters = {"type": "postgres", "schema": table.schema, "table": "t"}
    topic = _some_bad(bench)
    for _ in range(2):  # the second run starts at the beginning and replays everything
        good, _ = _read(bench, topic, 6, sql="SELECT id, id * 2 AS n, _gs_op FROM rows", **JSON_IDS)
        assert [row["n"] for row in good] == [0, 2, 4, 6]
        bench.state.put(f"rows:{topic.name}:0", {"offset": 0, "updated_at": 1})
    assert table.rows("position, error, payload, node") == [
        (
            f"{topic.name}/0/{offset}",
            f"the message is not exactly one JSON object: {text} (it does not begin with {{)",
            f'{{"value":"{text}"}}',
            "rows",
        )
        for offset, text in ((4, "x"), (5, "y"))
    ]
    assert set(table.types()) == {"id", "node", "error", "position", "payload"}


def test_a_topic_receives_bad_rows(bench: KafkaBench) -> None:
    topic = _some_bad(bench)
    bench.sections["kafka_sink"] = {"brokers": bench.kafka.brokers}
    letters = f"{topic.name}-bad"
    bench.dead_letters = {"type": "kafka", "topic": letters, "data_format": "json"}
    _read(bench, topic, 4, **JSON_IDS)
    values = [json.loads(message.value) for message in consume(bench.kafka.brokers, letters)]
    assert sorted(value["payload"] for value in values) == ['{"value":"x"}', '{"value":"y"}']


def _read(bench: KafkaBench, topic: Topic, count: int, **options: Any) -> tuple[list[dict[str, Any]], Any]:
    run = bench.begin(topic, errors=ERRORS, **options)
    return bench.collected(run, count), run


class Stubborn(LedgerSink):
    """A sink that cannot flush rows."""

    def flush(self) -> None:
        if self._buffer:
            raise RuntimeError("no room")


class StubbornBench(KafkaBench):
    def registry(self) -> Registry:
        registry = super().registry()
        registry.register(NodeKind.SINK, "stubborn", type("Mine", (Stubborn,), {"books": self.books}))
        return registry


def test_nothing_is_committed_before_the_dead_letter_sink_has_flushed(spark, kafka, registry) -> None:
    bench = StubbornBench(spark, kafka, registry)
    topic = _some_bad(bench)
    bench.dead_letters = {"type": "stubborn"}
    with pytest.raises(StreamlingError, match="stubborn sink 'bad'"):
        _read(bench, topic, 1000, **JSON_IDS)
    assert bench.state.get_prefix("rows:") == {}

    bench.dead_letters = {"type": "ledger"}
    good, _ = _read(bench, topic, 6, **JSON_IDS)
    assert [row["id"] for row in good] == [0, 1, 2, 3]
    assert [row["payload"] for row in bench.books["bad"]] == ['{"value":"x"}', '{"value":"y"}']
    assert bench.state.get(f"rows:{topic.name}:0")["offset"] == 6
