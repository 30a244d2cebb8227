"""Random changes to the messages of the corpus: each message is one correct row or one dead letter, and nothing
stops."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message
from tests.connectors.kafka.source_driver import KafkaBench
from tests.fuzz.budget import rounds
from tests.fuzz.kafka_model import BadMessage, parse, row_of

pytestmark = [pytest.mark.spark, pytest.mark.services]

CORPUS = json.loads((Path(__file__).parents[1] / "corpus" / "kafka" / "messages.json").read_text())
SCHEMA: dict[str, str] = CORPUS["schema"]
MESSAGES = [case["message"].encode() for case in CORPUS["cases"] if len(case["message"]) < 500]
PIECES = [bytes([byte]) for byte in b'{}[]":,0123456789.-+eE tfn\\u \n\x00\xff\xc3'] + [
    b"null", b"true", b'"id":1', b'"price":', b"1e5", b"0.1", b'"1.5"', b"\\ud800", b"\\u0041", b'\\"', "é".encode(),
]  # fmt: skip
COUNT = 1500


def test_messages_become_correct_rows_or_dead_letters(spark, kafka, registry) -> None:
    for chance in rounds():
        bench = KafkaBench(spark, kafka, registry)
        topic = bench.topic()
        messages = [mutated(chance) for _ in range(COUNT)]
        topic.send(*map(Message, messages))
        options = {"data_format": "json", "schema": SCHEMA, "primary_key": "id", "include_metadata": True}
        run = bench.begin(topic, errors={"to": "bad"}, **options)
        rows = bench.collected(run, COUNT)
        bad = [int(row["position"].rpartition("/")[2]) for row in collected_rows(run, "bad").to_pylist()]
        assert sorted([*(row["__kafka_offset"] for row in rows), *bad]) == list(range(COUNT))
        found = {row["__kafka_offset"]: {name: row[name] for name in SCHEMA if row[name] is not None} for row in rows}
        wrong = [
            (message, expected(message), found.get(offset))
            for offset, message in enumerate(messages)
            if not alike(found.get(offset), expected(message))
        ]
        assert wrong == []


def mutated(chance: random.Random) -> bytes:
    message = chance.choice(MESSAGES)
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        start = chance.randrange(len(message) + 1)
        end = min(len(message), start + chance.choice([0, 0, 1, 1, 2, 5]))
        other = chance.choice(MESSAGES)
        put = chance.choice([chance.choice(PIECES), b"", message[start:end] * 2, other[start:end]])
        message = message[:start] + put + message[end:]
    return message


def expected(message: bytes) -> dict[str, Any] | None:
    try:
        return row_of(message, SCHEMA, "id")
    except BadMessage:
        return None


def alike(found: dict[str, Any] | None, wanted: dict[str, Any] | None) -> bool:
    if found is None or wanted is None or found.keys() != wanted.keys():
        return found is wanted
    return all(_same(value, wanted[name], SCHEMA[name]) for name, value in found.items())


def _same(value: Any, wanted: Any, kind: str) -> bool:
    if isinstance(wanted, dict | list):
        return bool(parse(value) == wanted)
    if kind == "float32":
        return bool(abs(value - wanted) <= abs(wanted) * 2**-24 + 1e-45)
    return bool(value == wanted)
