"""JSON messages are decoded exactly or rejected: the corpus, message by message, in one pipeline per schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message
from streamling.pipeline.typenames import parse_type
from streamling.types.wide.layout import layout_of
from tests.connectors.kafka.source_driver import KafkaBench
from tests.paths import TESTS

pytestmark = [pytest.mark.spark, pytest.mark.services]

CORPUS = TESTS / "corpus" / "kafka"


@pytest.mark.parametrize("name", ["messages", "messages_wide"])
def test_messages_of_the_corpus(spark, kafka, registry, name: str) -> None:
    corpus = json.loads((CORPUS / f"{name}.json").read_text())
    schema, cases = corpus["schema"], corpus["cases"]
    bench = KafkaBench(spark, kafka, registry)
    topic = bench.topic()
    topic.send(*(Message(case["message"].encode()) for case in cases))
    options = {"data_format": "json", "schema": schema, "primary_key": "id", "include_metadata": True}
    run = bench.begin(topic, errors={"to": "bad"}, **options)
    rows = {row.pop("__kafka_offset"): row for row in bench.collected(run, len(cases))}
    found = {offset: shown(row, schema) for offset, row in rows.items()}
    refused = {int(row["position"].rpartition("/")[2]): row["error"] for row in collected_rows(run, "bad").to_pylist()}
    assert sorted([*found, *refused]) == list(range(len(cases)))
    wrong = [
        (case["message"], case.get("row", case.get("bad")), found.get(offset, refused.get(offset)))
        for offset, case in enumerate(cases)
        if found.get(offset) != case.get("row") or case.get("bad", "") not in refused.get(offset, "")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "group", json.loads((CORPUS / "keys.json").read_text()), ids=lambda group: group["primary_key"]
)
def test_a_tombstone_deletes_exactly_the_row_of_its_key(spark, kafka, registry, group: dict[str, Any]) -> None:
    """A case without a row is a bad key."""
    schema, cases = group["schema"], group["cases"]
    bench = KafkaBench(spark, kafka, registry)
    topic = bench.topic()
    topic.send(*(Message(None, key=case["key"].encode()) for case in cases))
    options = {"data_format": "json", "schema": schema, "primary_key": group["primary_key"], "include_metadata": True}
    run = bench.begin(topic, errors={"to": "bad"}, **options)
    rows = {row.pop("__kafka_offset"): row for row in bench.collected(run, len(cases))}
    assert {row["_gs_op"] for row in rows.values()} == {"d"}
    found = {offset: shown(row, schema) for offset, row in rows.items()}
    refused = {int(row["position"].rpartition("/")[2]): row["error"] for row in collected_rows(run, "bad").to_pylist()}
    assert sorted([*found, *refused]) == list(range(len(cases)))
    assert all("does not contain the primary key" in error for error in refused.values())
    wrong = [(case, found.get(offset)) for offset, case in enumerate(cases) if found.get(offset) != case.get("row")]
    assert wrong == []


def shown(row: dict[str, Any], schema: dict[str, str]) -> dict[str, str]:
    """Return the columns that are not null, as the corpus writes them."""
    return {name: _text(row[name], schema[name]) for name in schema if row[name] is not None}


def _text(value: Any, kind: str) -> str:
    layout = layout_of(parse_type(kind))
    if layout is not None:
        return layout.text(layout.decode(value))
    return value.hex() if isinstance(value, bytes) else str(value)
