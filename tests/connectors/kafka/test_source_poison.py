"""Values that no column can hold, keys and headers that are not text: each is a dead letter, and the pipeline
continues."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import KafkaBench
from tests.paths import TESTS

pytestmark = [pytest.mark.spark, pytest.mark.services]

CORPUS = json.loads((TESTS / "corpus" / "kafka" / "poison.json").read_text())
SCHEMA = {"type": "record", "name": "row", "fields": CORPUS["fields"]}


@pytest.fixture
def bench(spark, kafka, registry) -> KafkaBench:
    return KafkaBench(spark, kafka, registry)


@pytest.mark.parametrize("skip", [False, True], ids=["resolved", "not resolved"])
def test_poison_messages_are_dead_letters(bench: KafkaBench, skip: bool) -> None:
    topic, cases = bench.topic(), CORPUS["cases"]
    id = topic.register(SCHEMA)
    topic.send(*(message(id, case) for case in cases))
    options = {"primary_key": "id", "include_metadata": True, "skip_schema_resolution": skip}
    run = bench.begin(topic, errors={"to": "bad"}, **options)
    good = [row["__kafka_offset"] for row in bench.collected(run, len(cases))]
    refused = {int(row["position"].rpartition("/")[2]): row["error"] for row in collected_rows(run, "bad").to_pylist()}
    assert sorted([*good, *refused]) == list(range(len(cases)))
    wrong = [
        (case, refused.get(offset))
        for offset, case in enumerate(cases)
        if (offset in refused) != ("bad" in case) or case.get("bad", "") not in refused.get(offset, "")
    ]
    assert wrong == []


@pytest.mark.parametrize("number", [5, 13])
def test_a_poison_message_that_stops_the_pipeline_is_named(bench: KafkaBench, number: int) -> None:
    topic, case = bench.topic(), CORPUS["cases"][number]
    id = topic.register(SCHEMA)
    topic.send(message(id, {"row": {}}), message(id, case))
    with pytest.raises(StreamlingError, match=f"'{topic.name}', partition 0, offset 1 has a value {case['bad']}"):
        bench.rows(topic, 2, primary_key="id")


def message(id: int, case: dict[str, Any]) -> Message:
    if "key" in case:
        return Message(None, key=bytes.fromhex(case["key"]))
    if "body" in case:
        return Message(b"\0" + id.to_bytes(4, "big") + bytes.fromhex(case["body"]))
    headers = (("dbz.op", bytes.fromhex(case["header"])),) if "header" in case else ()
    row = {"id": 1, **{field["name"]: field["default"] for field in SCHEMA["fields"] if "default" in field}}
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(_raw(SCHEMA)), _bytes({**row, **case["row"]}))
    return Message(b"\0" + id.to_bytes(4, "big") + out.getvalue(), headers=headers)


def _raw(schema: Any) -> Any:
    """Return the schema with bytes for texts, which are encoded the same, and without logical types."""
    if isinstance(schema, list):
        return [_raw(branch) for branch in schema]
    if isinstance(schema, dict):
        return {key: _raw(part) for key, part in schema.items() if key not in ("logicalType", "default")}
    return "bytes" if schema == "string" else schema


def _bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bytes(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_bytes(item) for item in value]
    if not isinstance(value, str):
        return value
    return bytes.fromhex(value[4:]) if value.startswith("hex:") else value.encode()
