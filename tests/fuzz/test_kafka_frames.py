"""Random Avro messages, keys and headers, intact and damaged: each is one correct row or one dead letter."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message
from streamling.types.wide.layout import layout_of
from tests.connectors.kafka.source_driver import KafkaBench
from tests.fuzz.avro_model import Reader, encoded, zigzag
from tests.fuzz.budget import rounds
from tests.fuzz.kafka_model import BadMessage, row_of

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCHEMA = json.loads((Path(__file__).parents[1] / "corpus" / "kafka" / "frames.json").read_text())
NAMES = [field["name"] for field in SCHEMA["fields"]]
FEE = layout_of(pa.decimal256(50, 2))
COUNT = 1500
OPERATIONS = {"c": "i", "u": "u", "d": "d", "r": "i", "C": "i", "U": "u", "D": "d", "R": "i"}
TEXTS = [b"", b"a", b"7", "é".encode(), b"x" * 70, b"\xff", b"\xed\xa0\x80", b"\xc3", b"\0"]
NUMBERS = [0, 1, -1, 7, 63, 64, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63)]
PIECES = [b"\0", b"\xff", b"\x80", b"\x01", *map(zigzag, NUMBERS)]
KEYS = [b"7", b"-9", b'{"id": 7}', b'{"schema": {}, "payload": {"id": 7}}', b'{"id":"12"}', b"1.0", b" 5", b"\xff"]


def test_avro_messages_become_correct_rows_or_dead_letters(spark, kafka, registry) -> None:
    for chance in rounds():
        bench = KafkaBench(spark, kafka, registry)
        topic = bench.topic()
        id = topic.register(SCHEMA).to_bytes(4, "big")
        key_id = topic.registry.register(f"{topic.name}-key", "long").to_bytes(4, "big")
        messages = [message(chance, id, key_id) for _ in range(COUNT)]
        topic.send(*messages)
        run = bench.begin(topic, errors={"to": "bad"}, primary_key="id", include_metadata=True)
        rows = bench.collected(run, COUNT)
        bad = {int(row["position"].rpartition("/")[2]): row["error"] for row in collected_rows(run, "bad").to_pylist()}
        assert sorted([*(row["__kafka_offset"] for row in rows), *bad]) == list(range(COUNT))
        found = {row["__kafka_offset"]: {name: row[name] for name in (*NAMES, "_gs_op")} for row in rows}
        wrong = [
            (message, wanted, found.get(offset), bad.get(offset))
            for offset, message in enumerate(messages)
            for wanted in (expected(message, id, key_id),)
            if not alike(found.get(offset), wanted)
        ]
        assert wrong == []
        assert len(found) > COUNT / 10


def message(chance: random.Random, id: bytes, key_id: bytes) -> Message:
    headers = tuple(header(chance) for _ in range(chance.choice([0, 0, 0, 1, 1, 2])))
    if chance.random() < 0.2:
        return Message(None, key=key(chance, key_id), headers=headers)
    frame = b"\0" + id  # no unknown ids: each restarts the query
    if chance.random() < 0.03:
        frame = chance.choice([b"", b"\0", b"\1" + id, frame[:4], b"{}"])
        return Message(frame + b"\0" * chance.choice([0, 0, 9]) if frame[:1] == b"\1" else frame, headers=headers)
    body = encoded(row(chance), SCHEMA)
    return Message(frame + damaged(chance, body, chance.choice([0, 0, 1, 1, 2])), key=b"k", headers=headers)


def row(chance: random.Random) -> dict[str, Any]:
    def number(bits: int) -> int:
        return chance.randrange(-(2**bits), 2**bits) >> chance.randrange(bits)

    def text() -> bytes:
        return chance.choice(TEXTS if chance.random() < 0.05 else TEXTS[:5])

    def digits(count: int) -> bytes:
        value = chance.randrange(-(10**count) + 1, 10**count)
        if chance.random() < 0.02:
            value = chance.choice([10**count, -(10**count), 2**64 + 5, 2**128 + 5, 2**192 + 5])
        return value.to_bytes((value.bit_length() + 8) // 8 + chance.choice([0, 0, 3]), "big", signed=True)

    return {
        "id": number(63),
        "name": text(),
        "price": digits(10),
        "big": digits(30),
        "fee": digits(50),
        "small": chance.randrange(-(10**8) + 1, 10**8).to_bytes(4, "big", signed=True),
        "day": chance.randrange(-719162, 2932897),
        "at": chance.randrange(-(2**52), 2**52),
        "clock": chance.randrange(86_400_000_000),
        "ok": chance.random() < 0.5,
        "x": chance.choice([0.0, -0.5, 1e308, math.inf, 1.1]),
        "kind": chance.choice("abc"),
        "tags": [text() for _ in range(chance.randrange(4))],
        "counts": {b"k%d" % n: number(31) for n in range(chance.randrange(3))},
        "note": chance.choice([None, text()]),
        "part": chance.choice([None, {"n": number(31), "t": text()}]),
    }


def damaged(chance: random.Random, content: bytes, times: int) -> bytes:
    for _ in range(times):
        start = chance.randrange(len(content) + 1)
        end = min(len(content), start + chance.choice([0, 1, 1, 2, 8, len(content)]))
        content = content[:start] + chance.choice([b"", *PIECES]) + content[end:]
    return content


def key(chance: random.Random, key_id: bytes) -> bytes | None:
    if chance.random() < 0.3:
        return b"\0" + key_id + damaged(chance, zigzag(chance.choice(NUMBERS)), chance.choice([0, 1]))
    text = damaged(chance, chance.choice(KEYS), chance.choice([0, 1]))
    return None if chance.random() < 0.05 else text.lstrip(b"\0")


def header(chance: random.Random) -> tuple[str, bytes]:
    name = chance.choice(["dbz.op", "dbz.op", "dbz.op", "other"])
    return name, chance.choice([*(letter.encode() for letter in "cudrCUDR")] * 4 + [b"", b"x", b"\xff", b"cc", b"\0"])


def expected(message: Message, id: bytes, key_id: bytes) -> dict[str, Any] | None:
    try:
        if message.value is None:
            return {**dict.fromkeys(NAMES), "id": _key(message.key, key_id), "_gs_op": "d"}
        if message.value[:5] != b"\0" + id:
            raise BadMessage
        operation = next((value for name, value in message.headers if name == "dbz.op"), b"c")
        return {**Reader(message.value[5:]).value(SCHEMA), "_gs_op": OPERATIONS[operation.decode("latin-1")]}
    except (BadMessage, KeyError):
        return None


def _key(key: bytes | None, key_id: bytes) -> int:
    if key is None:
        raise BadMessage
    if key[:5] == b"\0" + key_id:
        return int(Reader(key[5:]).value("long"))
    if not key.startswith(b"{"):
        key = b'{"id":%s}' % json.dumps(_text(key)).encode()
    try:
        return int(row_of(key, {"id": "int64"}, "id")["id"])
    except BadMessage:
        inner = row_of(key, {"payload": "string"}, "payload")["payload"]
        if not isinstance(inner, dict) or inner.get("id") is None:
            raise
        return int(row_of(json.dumps({"id": inner["id"]}).encode(), {"id": "int64"}, "id")["id"])


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BadMessage from None


def alike(found: dict[str, Any] | None, wanted: dict[str, Any] | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return all(_same(found[name], value) for name, value in wanted.items())


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, bytes):
        return FEE.text(FEE.decode(found)) == str(wanted)
    if isinstance(wanted, float) and math.isnan(wanted):
        return math.isnan(found)
    return bool((dict(found) if isinstance(found, list) and isinstance(wanted, dict) else found) == wanted)
