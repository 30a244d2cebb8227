"""Responses that servers should not send, kept as data: each gives a body or an error, and none costs memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import yaml

from streamling.errors import StreamlingError
from streamling.network.http.client import HttpClient, Target
from streamling.network.policy import ANY_ADDRESS
from tests.network.http.raw import MOST_BYTES, raw_server
from tests.paths import TESTS

CASES: list[dict[str, Any]] = yaml.safe_load((TESTS / "corpus/http/answers.yaml").read_text(encoding="utf-8"))
#: what the buffers of two sockets hold, and much more than a client without a limit would read
_BUFFERED = MOST_BYTES // 3


@pytest.fixture(scope="module")
def client():
    made = HttpClient(ANY_ADDRESS)
    yield made
    made.close()


def _name(case: dict[str, Any]) -> str:
    return case.get("name") or str(case["sends"])[:70]


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_response(client, case):
    with raw_server(case["sends"], closes=case.get("closes", False)) as server:
        target = Target(server.url, headers={}, seconds=case.get("seconds", 20), max_bytes=1000)
        call = client.run(client.post(target, b"[]"))
        if "error" not in case:
            times, text, rest = case.get("body_of", (0, "", case.get("body")))
            assert call.result(30).body.decode() == text * times + rest
            return
        with pytest.raises(StreamlingError, match=case["error"]) as raised:
            call.result(30)
        assert server.sent < _BUFFERED
    assert raised.value.retriable != case.get("final", False)
    assert f"127.0.0.1:{server.port}" in str(raised.value)


def test_a_body_in_a_million_chunks_costs_no_more_memory_than_in_one(client):
    size = 200_000
    parts = [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        {"times": size, "text": "1\r\n \r\n"},
        "0\r\n\r\n",
    ]
    with raw_server(parts) as server:
        target = Target(server.url, headers={}, seconds=60, max_bytes=size)
        tracemalloc.start()
        try:
            answer = client.run(client.post(target, b"[]")).result(60)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(answer.body) == size
    assert peak < 20 * size  # 42 bytes for each byte before, plus what the server itself sends
