"""Somebody without a token reaches the port of the server."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.serve.attacks.conftest import SECRETS, TOKENS
from tests.serve.server import Client, ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ADMIN = TOKENS["admin"]
PIPELINE = "/api/v1/pipelines/shop/orders"


def exchange(server: ServeProcess, request: bytes) -> bytes:
    """Send bytes as they are, and return the answer until the server closes the connection or is silent."""
    address = urlsplit(server.address)
    assert address.hostname is not None
    assert address.port is not None
    answer = b""
    with closing(socket.create_connection((address.hostname, address.port), timeout=3)) as peer:
        peer.sendall(request)
        try:
            while data := peer.recv(65536):
                answer += data
        except (TimeoutError, ConnectionResetError):
            pass
    return answer


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong-token-0123456789"},
        {"Authorization": f"Bearer {ADMIN[:-1]}"},
        {"Authorization": f"Bearer {ADMIN}x"},
        {"Authorization": f"Bearer {ADMIN.upper()}"},
        {"Authorization": f"Basic {ADMIN}"},
        {"Authorization": ADMIN},
        {"Authorization": f"Bearer Bearer {ADMIN}"},
        {"Authorization": f"Bearer x, Bearer {ADMIN}"},
        {"Cookie": f"token={ADMIN}; Authorization=Bearer {ADMIN}"},
        {"X-Authorization": f"Bearer {ADMIN}"},
        {"Proxy-Authorization": f"Bearer {ADMIN}"},
        {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1", "Forwarded": "for=127.0.0.1"},
        {"X-HTTP-Method-Override": "GET", "X-Original-URL": "/healthz", "X-Rewrite-URL": "/healthz"},
    ],
)
def test_a_stranger_presents_no_token_or_another_one(stranger: Client, headers):
    answer = stranger.request("GET", PIPELINE, headers=headers, prefix="")
    assert answer.status == 401
    assert "shop" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        f"{PIPELINE}?token={ADMIN}",
        f"{PIPELINE}?access_token={ADMIN}",
        f"{PIPELINE}?Authorization=Bearer%20{ADMIN}",
        f"/healthz/..{PIPELINE}",
        f"/healthz/%2e%2e{PIPELINE}",
        f"/healthz;{PIPELINE}",
        f"/console/..{PIPELINE}",
        f"/{PIPELINE}",
        "/api/v1/openapi.json",
        "/api/v1/audit",
        "/docs",
        "/metrics",
        "/debug",
    ],
)
def test_a_stranger_finds_another_way_to_a_path(stranger: Client, path):
    answer = stranger.request("GET", path, prefix="")
    assert answer.status in (400, 401, 403, 404), answer.text[:300]
    assert not [secret for secret in SECRETS.values() if secret in answer.text]


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/../token.txt",
            "/console/../../token.txt",
            "/console/%2e%2e/%2e%2e/token.txt",
            "/console/..%2f..%2ftoken.txt",
        ),
        *(
            "/console/....//....//token.txt",
            "/console/..\\..\\token.txt",
            "/console//etc/passwd",
            "/console/%2fetc%2fpasswd",
        ),
        *("/static/../config.yaml", "/..%00/token.txt", "/console/static/../../../../../../etc/passwd", "/token.txt"),
        *("file:///etc/passwd", "/console/..%c0%af..%c0%aftoken.txt", "/%252e%252e/token.txt"),
    ],
)
def test_a_stranger_reads_a_file_through_the_paths_of_the_console(server: ServeProcess, path):
    answer = exchange(server, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert b"root:" not in answer
    assert not [secret for secret in SECRETS.values() if secret.encode() in answer]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:4195", "", "[::ffff:1.2.3.4]"]
)
def test_a_web_page_reaches_the_server_under_its_own_name(server: ServeProcess, host):
    request = f"GET {PIPELINE} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\r\n"
    answer = exchange(server, request.encode())
    assert b" 200 " not in answer.split(b"\r\n")[0]
    assert SECRETS["row"].encode() not in answer


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"])
def test_a_web_page_sends_a_request_of_another_origin(server: ServeProcess, origin):
    client = Client(server.address, ADMIN)
    answer = client.request("POST", "/pipelines/shop/orders/pause", headers={"Origin": origin})
    assert answer.status == 403
    assert client.get("/pipelines/shop/orders").json["desired"] == "running"


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PATCH", "PROPFIND", "OPTIONS", "get", "HEAD"])
def test_a_stranger_uses_another_method(server: ServeProcess, method):
    answer = exchange(server, f"{method} {PIPELINE} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert b" 200 " not in answer.split(b"\r\n")[0]
    assert b"orders" not in answer


@pytest.mark.parametrize(
    "request_",
    [
        # two requests in one: what a proxy in front would not have seen
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0, 50\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization : Bearer x\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET " + b"/a" * 60_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    ],
)
def test_a_stranger_sends_what_is_no_valid_request(server: ServeProcess, request_):
    answer = exchange(server, request_ + f"GET {PIPELINE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert SECRETS["row"].encode() not in answer
    assert b"Traceback" not in answer
    assert Client(server.address).request("GET", "/healthz", prefix="").status == 200


@pytest.mark.parametrize("token", [None, TOKENS["evil"]])
def test_a_huge_body_is_refused(server: ServeProcess, token):
    body: Any = b'{"definition": "' + b"x" * 3_000_000 + b'"}'
    try:
        answer = Client(server.address, token).request("POST", "/validate", body)
        assert answer.status == (401 if token is None else 413)
    except (BrokenPipeError, ConnectionResetError):
        pass  # closed before all of it was sent
    assert Client(server.address).request("GET", "/healthz", prefix="").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"definition": ' + b'{"a":' * 50_000,
        b"\xff\xfe\x00",
        b'{"definition": "a: &a [x, x]\\nb: &b [*a, *a]\\nc: [*b, *b]"}',
        b'{"definition": "!!python/object/apply:os.system [id]"}',
        b'{"definition": "sources: {x: {type: file, path: /tmp, format: csv}}", "config": {"__class__": {"x": 1}}}',
        b'{"definition": "x", "definition": 5}',
        b'{"definition": "\\u0000"}',
    ],
)
def test_an_operator_sends_a_body_that_no_parser_likes(server: ServeProcess, body):
    answer = Client(server.address, TOKENS["evil"]).request("POST", "/validate", body)
    assert answer.status in (200, 400, 422)
    assert "Traceback" not in answer.text
    if answer.status == 200:
        assert answer.json["problems"], answer.text
