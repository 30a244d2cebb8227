"""Mutated answers of a real server on loopback: rows, a bad row or an error come out of them, in time and in bounds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from streamling.errors import StreamlingError
from streamling.http.answers import Answers
from streamling.http.client import HttpClient, Target
from streamling.kafka.registry import RegisteredSchema, SchemaRegistry
from tests.fuzz.budget import SECONDS, rounds
from tests.http.raw import RawServer, chunks, raw_server

_CORPUS = Path(__file__).parents[1] / "corpus/http"
#: of a mutated answer
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
_ROW = {
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


def _answers() -> list[bytes]:
    """Whole answers: those of the corpus, cut where they have no end, and good ones with rows."""
    cases = yaml.safe_load((_CORPUS / "answers.yaml").read_text(encoding="utf-8"))
    hostile = [b"".join(_bounded(case["sends"]))[:_LONGEST] for case in cases if "drip" not in str(case["sends"])]
    bodies = [
        json.dumps(value).encode()
        for value in (_ROW, [_ROW, _ROW], [], None, [{"data": _ROW, "metadata": {"op": "d"}}])
    ]
    cases = yaml.safe_load((_CORPUS / "rows.yaml").read_text(encoding="utf-8"))
    bodies += [case["answer"].replace("ID", "7").encode() for case in cases]
    good = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies]
    return hostile + good * 2


def _bounded(parts: Sequence[Any]) -> Iterator[bytes]:
    for part in parts:
        yield from islice(chunks([part]), 2)


ANSWERS = _answers()


def mutated(rng: random.Random) -> bytes:
    text = rng.choice(ANSWERS)
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
                other = rng.choice(ANSWERS)
                text = text[:at] + other[rng.randrange(len(other) + 1) :]
    return text[:_LONGEST]


def pieces(rng: random.Random, text: bytes) -> list[bytes]:
    """As the network may deliver it."""
    size = rng.choice([len(text) or 1, 1000, 100]) if len(text) > 200 else rng.choice([len(text) or 1, 7, 1])
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.fixture(scope="module")
def client() -> Iterator[HttpClient]:
    made = HttpClient(deny_private=False)
    yield made
    made.close()


def as_rows(client: HttpClient, server: RawServer, version: int) -> pa.RecordBatch:
    """What a handler does with an answer."""
    target = Target(server.url, headers={"X-Key": "hunter2"}, seconds=_TIME, most_bytes=10_000)
    answer = client.run(client.post(target, b"[]")).result(10 * _TIME)
    answers = Answers(_SCHEMA, version=version, key=["id"], most_values=2_000)
    answers.add(answer.body, ["i"])
    return answers.batch()


def as_schema(server: RawServer) -> RegisteredSchema:
    return SchemaRegistry(server.url, username="me", password="hunter2", timeout=_TIME).by_id(1)


def check(error: StreamlingError, text: bytes) -> None:
    assert error.retriable or not error.internal, text
    assert "hunter2" not in str(error), text
    str(error).encode()


def test_mutated_answers(client):
    for rng in rounds(SECONDS / 2):
        text = mutated(rng)
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
