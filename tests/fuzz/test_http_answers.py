"""Mutated responses of a real server on loopback: they become rows, a bad row or an error, within time and limits."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from streamling.connectors.http.responses import ResponseRows
from streamling.connectors.kafka.registry import RegisteredSchema, SchemaRegistry
from streamling.errors import StreamlingError
from streamling.network.http.client import HttpClient, Target
from streamling.network.policy import ANY_ADDRESS
from tests.fuzz.budget import FIRST_SEED, SECONDS, rounds
from tests.network.http.raw import RawServer, chunks, raw_server

_CORPUS = Path(__file__).parents[1] / "corpus/http"
#: of a mutated response
_LONGEST = 20_000
_TIME = 0.5
_SCHEMA = pa.schema(
    [
        *(
            ("id", pa.int64()),
            ("name", pa.string()),
            ("price", pa.decimal128(10, 2)),
            ("at", pa.timestamp("us", "UTC")),
        ),
        *(("day", pa.date32()), ("tags", pa.list_(pa.string())), ("raw", pa.binary()), ("_gs_op", pa.string())),
    ]
)
_ROW: dict[str, Any] = {
    "id": 1,
    "name": "a\u00e9\U0001f600",
    "price": "12.50",
    "at": "2024-02-29T12:00:00.5Z",
    "day": "2024-02-29",
    "tags": ["x", None, "\u0001"],
    "raw": "00ff",
    "_gs_op": "u",
    "schema": '{"type": "long"}',
}
_TOKENS = [
    *(
        b"\r\n",
        b"\r\n\r\n",
        b"0\r\n\r\n",
        b"\0",
        b"\xff\xfe",
        b" ",
        b":",
        b";x=",
        b"HTTP/1.1 ",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ),
    *(
        b"Content-Length: 3\r\n",
        b"Content-Length: 99999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Encoding: gzip\r\n",
    ),
    *(b"Location: http://127.0.0.1:1/\r\n", b"Location: /\r\n", b"Connection: close\r\n", b"Retry-After: 9\r\n"),
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b'"',
        b"null",
        b"NaN",
        b"-0",
        b"1e999",
        b"9" * 30,
        b"9" * 5000,
        b'"\\ud800"',
        b"[" * 3000,
    ),
    *(
        b'"id":null',
        b'"at":-1e18',
        b'"at":999999999999999999',
        b'"day":"10000-01-01"',
        b'"price":"1e-99999999"',
        b'"raw":"0"',
    ),
]


def _bodies() -> list[bytes]:
    values = [_ROW, [_ROW, _ROW], [], None, [{"data": _ROW, "metadata": {"op": "d"}}]]
    cases = yaml.safe_load((_CORPUS / "rows.yaml").read_text(encoding="utf-8"))
    texts = (case["answer"].replace("ID", "7").replace("DEEP", "[[[]]]").replace("DIGITS", "9" * 30) for case in cases)
    return [*(json.dumps(value).encode() for value in values), *(text.encode() for text in texts)]


def _answers() -> list[bytes]:
    """Complete responses of the corpus, truncated if they are endless."""
    cases = yaml.safe_load((_CORPUS / "answers.yaml").read_text(encoding="utf-8"))
    return [b"".join(_bounded(case["sends"]))[:_LONGEST] for case in cases if "drip" not in str(case["sends"])]


def framed(rng: random.Random, body: bytes) -> bytes:
    """A valid response with this body, sent in one of the possible ways."""
    head, coding = b"HTTP/1.1 200 OK\r\n", rng.choice([b"", b"gzip", b"deflate"])
    if coding:
        head += b"Content-Encoding: %b\r\n" % coding
        body = gzip.compress(body) if coding == b"gzip" else zlib.compress(body)
    if rng.random() < 0.3:
        return head + b"Connection: close\r\n\r\n" + body
    if rng.random() < 0.5:
        return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    size = rng.randint(1, 200)
    parts = (body[at : at + size] for at in range(0, len(body), size))
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked + b"0\r\n\r\n"


def _bounded(parts: Sequence[Any]) -> Iterator[bytes]:
    for part in parts:
        yield from islice(chunks([part]), 2)


BODIES, ANSWERS = _bodies(), _answers()


def answer_of(rng: random.Random) -> bytes:
    """A valid response with an invalid body, or an invalid response."""
    if rng.random() < 0.6:
        return framed(rng, mutated(rng, rng.choice(BODIES), BODIES))
    return mutated(rng, rng.choice([framed(rng, rng.choice(BODIES)), rng.choice(ANSWERS)]), ANSWERS)


def mutated(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        at, length = rng.randrange(len(text) + 1), rng.choice([1, 1, 4, 40])
        match rng.randrange(7):
            case 0:
                text = text[:at] + rng.choice(_TOKENS) + text[at:]
            case 1:
                text = text[:at] + rng.choice(_TOKENS) + text[at + length :]
            case 2:
                text = text[:at] + text[at + length :]
            case 3:
                text = text[:at] + rng.randbytes(length) + text[at + length :]
            case 4:
                text = text[:at] + text[at : at + length] * 3 + text[at + length :]
            case 5:
                text = text[:at]
            case 6:
                other = rng.choice(others)
                text = text[:at] + other[rng.randrange(len(other) + 1) :]
    return text[:_LONGEST]


def pieces(rng: random.Random, text: bytes) -> list[bytes]:
    """The chunks in which the network may deliver it."""
    size = rng.choice([len(text) or 1, 1000, 100]) if len(text) > 200 else rng.choice([len(text) or 1, 7, 1])
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.fixture(scope="module")
def client() -> Iterator[HttpClient]:
    made = HttpClient(ANY_ADDRESS)
    yield made
    made.close()


def as_rows(client: HttpClient, server: RawServer, version: int) -> pa.RecordBatch:
    """What a handler does with a response."""
    target = Target(server.url, headers={"X-Key": "hunter2"}, seconds=_TIME, max_bytes=10_000)
    answer = client.run(client.post(target, b"[]")).result(10 * _TIME)
    answers = ResponseRows(_SCHEMA, version=version, key=["id"], max_values=2_000)
    answers.add(answer.body, ["i"])
    return answers.batch()


def as_schema(server: RawServer) -> RegisteredSchema:
    return SchemaRegistry(server.url, username="me", password="hunter2", timeout=_TIME).by_id(1)


def check(error: StreamlingError, text: bytes) -> None:
    assert error.retriable or not error.internal, text
    assert "hunter2" not in str(error), text
    str(error).encode()


def test_valid_responses_become_rows_however_they_are_sent(client):
    rng = random.Random(FIRST_SEED)
    expected = {
        "id": 1,
        "name": _ROW["name"],
        "price": Decimal("12.50"),
        "day": date(2024, 2, 29),
        "raw": b"\0\xff",
        "at": datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC),
        "tags": _ROW["tags"],
        "_gs_op": "u",
    }
    for _ in range(30):
        with raw_server(pieces(rng, framed(rng, json.dumps([_ROW, _ROW]).encode())), closes=True) as server:
            assert as_rows(client, server, 0).to_pylist() == [{name: expected[name] for name in _SCHEMA.names}] * 2


def test_mutated_responses(client):
    for rng in rounds(SECONDS / 2):
        text = answer_of(rng)
        with raw_server(pieces(rng, text), closes=rng.random() < 0.9) as server:
            try:
                rows = as_rows(client, server, rng.randrange(2))
            except StreamlingError as error:
                check(error, text)
            else:
                rows.validate(full=True)
                assert rows.schema == _SCHEMA
            if rng.random() < 0.3:
                try:
                    assert isinstance(as_schema(server), RegisteredSchema)
                except StreamlingError as error:
                    check(error, text)
