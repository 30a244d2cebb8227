"""Requests whose headers are ambiguous: a proxy may have checked another value than the server uses."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from starlette.responses import PlainTextResponse

from streamling.serve.access import Access, RateLimit
from streamling.serve.admin.server import bound, create_server
from streamling.serve.config import ServeSettings, TokenSettings
from streamling.serve.guard import guarded
from tests.serve.admin.server_thread import started

TOKEN, OTHER = "a-token-of-some-length", "another-token-of-some-length"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    settings = ServeSettings(
        tokens={"ci": TokenSettings(value=SecretStr(TOKEN)), "other": TokenSettings(value=SecretStr(OTHER))}
    )
    guard = guarded(PlainTextResponse("answered"), Access.of(settings), RateLimit(settings), {"127.0.0.1", "api"})
    with bound("127.0.0.1", 0) as listening, started(create_server(guard), listening) as port:
        yield port


def ask(port: int, *headers: str) -> str:
    """The answer to a request with exactly these headers."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        lines = ["GET /api/v1/pipelines HTTP/1.1", *headers, "Connection: close", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        answer = b""
        while part := connection.recv(4096):
            answer += part
    return answer.decode()


def test_a_request_with_each_header_once_is_answered(port):
    assert ask(port, "Host: api", f"Authorization: Bearer {TOKEN}").startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: api", "Host: evil.example", f"Authorization: Bearer {TOKEN}"),
        ("Host: evil.example", "Host: api", f"Authorization: Bearer {TOKEN}"),
        ("Host: api", "host: api", f"Authorization: Bearer {TOKEN}"),
        ("Host: api", f"Authorization: Bearer {TOKEN}", f"Authorization: Bearer {OTHER}"),
        ("Host: api", "Authorization: Bearer wrong", f"Authorization: Bearer {TOKEN}"),
        ("Host: api", f"Authorization: Bearer {TOKEN}", "Origin: http://evil.example", "Origin: http://api"),
        ("Host: api", f"Authorization: Bearer {TOKEN}", 'If-Match: "a"', 'If-Match: "b"'),
        ("Host: api", f"Authorization: Bearer {TOKEN}", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: none"),
    ],
)
def test_a_header_that_decides_and_occurs_twice_is_refused(port, headers):
    answer = ask(port, *headers)
    assert answer.startswith("HTTP/1.1 400 ")
    assert '"code": "ambiguous"' in answer
