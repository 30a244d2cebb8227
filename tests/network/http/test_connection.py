"""Responses as real servers send them, byte by byte, and the requests."""

from __future__ import annotations

import gzip
import socket
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from streamling.errors import StreamlingError
from streamling.network.http.client import HttpClient, Target
from streamling.network.http.connection import Response
from streamling.network.policy import ANY_ADDRESS


class Server:
    """Sends given bytes for every request; ``then_close`` ends the connection after them."""

    def __init__(self, parts: Sequence[bytes], then_close: bool) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._parts = parts
        self._then_close = then_close
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while request := _request(connection):
                    self.requests.append(request)
                    for part in self._parts:
                        connection.sendall(part)
                    if self._then_close:
                        break


def _request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        if not (data := connection.recv(65536)):
            return b""
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def server(*parts: bytes, then_close: bool = False) -> Iterator[Server]:
    made = Server(parts, then_close)
    try:
        yield made
    finally:
        made.close()


def answers(made: Server, count: int = 1, *, path: str = "/rows", user: str = "", **fields: object) -> list[Response]:
    target = Target(
        f"http://{user}127.0.0.1:{made.port}{path}", **{"headers": {}, "seconds": 10, "max_bytes": 1000, **fields}
    )
    client = HttpClient(ANY_ADDRESS)
    try:
        return [client.run(client.post(target, b"[]")).result(30) for _ in range(count)]
    finally:
        client.close()


def compressed(body: bytes, *, header: bool) -> bytes:
    maker = zlib.compressobj(wbits=zlib.MAX_WBITS if header else -zlib.MAX_WBITS)
    return maker.compress(body) + maker.flush()


def answer_of(body: bytes, encoding: str) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        encoding.encode(),
        len(body),
        body,
    )


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[1,2]"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        b"HTTP/1.1 200 OK\r\ncontent-length:5\r\nX-Long: " + b"x" * 9000 + b"\r\n\r\n[1,2]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;note=x\r\n[1\r\n3\r\n,2]\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN,
        answer_of(gzip.compress(b"[1,2]", mtime=0), "gzip"),
        answer_of(gzip.compress(b"[1", mtime=0) + gzip.compress(b",2]", mtime=0), "x-gzip"),
        answer_of(compressed(b"[1,2]", header=True), "deflate"),
        answer_of(compressed(b"[1,2]", header=False), "Deflate"),
        answer_of(b"[1,2]", "identity"),
    ],
)
@pytest.mark.parametrize("pieces", [False, True])
def test_a_body_is_read_however_it_is_sent_and_the_connection_is_reused(text, pieces):
    parts = [text[at : at + 1] for at in range(len(text))] if pieces else [text]
    with server(*parts) as made:
        assert [answer.body for answer in answers(made, 2)] == [b"[1,2]"] * 2
        assert made.connections == 1


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\n\r\n[1,2]",
        b"HTTP/1.0 200 OK\r\n\r\n[1,2]",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n[1,2]",
    ],
)
def test_a_body_may_end_with_its_connection(text):
    with server(text, then_close=True) as made:
        assert [answer.body for answer in answers(made, 2)] == [b"[1,2]"] * 2
        assert made.connections == 2


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_responses_without_a_body(status):
    with server(b"HTTP/1.1 %b\r\n\r\n" % status) as made:
        assert {answer.body for answer in answers(made, 2)} == {b""}
        assert made.connections == 1


def test_status_and_headers_of_a_response():
    text = b"HTTP/1.1 429 Too Many\r\nRETRY-AFTER: 7\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
    with server(text) as made:
        assert answers(made) == [Response(429, "Too Many", b"", 7.0, "/there")]


def test_data_after_a_response_is_not_the_next_response():
    with server(PLAIN + b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nX") as made:
        assert [answer.body for answer in answers(made, 3)] == [b"[1,2]"] * 3
        assert made.connections == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "the connection broke before the response was complete"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "the connection broke before the response was complete"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1,", "the connection broke before the response was complete"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1,2]\r\n", "the connection broke before"),
        (
            answer_of(gzip.compress(b"[1,2]" * 9, mtime=0)[:-9], "gzip"),
            "the connection broke before the response was complete",
        ),
        (answer_of(b"[1,2]", "gzip"), "the response is not compressed as its header says"),
        (b"220 mail.example ESMTP\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "the response is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "the response has more than 65536 bytes in addition to its body"),
    ],
)
def test_an_invalid_response_is_a_transient_error(text, reason):
    with server(text, then_close=True) as made, pytest.raises(StreamlingError, match=reason) as raised:
        answers(made)
    assert raised.value.retriable


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + (b"1f5\r\n" + b"x" * 501 + b"\r\n") * 2
        + b"0\r\n\r\n",
        answer_of(compressed(b"x" * 1001, header=True), "deflate"),
        answer_of(gzip.compress(b"x" * 501, mtime=0) * 2, "gzip"),
    ],
)
def test_no_body_is_longer_than_allowed(text):
    with server(text, then_close=True) as made, pytest.raises(StreamlingError, match="more than 1000 bytes") as raised:
        answers(made)
    assert not raised.value.retriable


def test_a_silent_server_times_out():
    with (
        server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n") as made,
        pytest.raises(StreamlingError, match=r"no response within 0\.3 s") as raised,
    ):
        answers(made, seconds=0.3)
    assert raised.value.retriable


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────


def sent(**fields: object) -> tuple[str, list[str]]:
    """Return request line and headers."""
    with server(PLAIN) as made:
        answers(made, **fields)
        head = made.requests[0].partition(b"\r\n\r\n")[0].decode().replace(str(made.port), "PORT")
    line, *headers = head.split("\r\n")
    return line, headers


def test_a_request_has_each_header_once_and_those_of_the_user_win():
    _, headers = sent(headers={"user-AGENT": "mine", "Host": "other.example", "X-Name": "Zoë"})
    assert sorted(headers) == [
        "Accept-Encoding: gzip, deflate",
        "Accept: */*",
        "Content-Length: 2",
        "Host: other.example",
        "X-Name: Zoë",
        "user-AGENT: mine",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "/"),
        ("?a=1", "/?a=1"),
        ("/a%20b/ü?q=ä b&r=%2F#part", "/a%20b/%C3%BC?q=%C3%A4%20b&r=%2F"),
        ("/a b/(c);d='e'", "/a%20b/(c);d='e'"),
    ],
)
def test_invalid_characters_of_a_url_are_escaped_once(path, expected):
    line, headers = sent(path=path)
    assert line == f"POST {expected} HTTP/1.1"
    assert "Host: 127.0.0.1:PORT" in headers


def test_user_and_password_of_an_address_become_a_header():
    _, headers = sent(user="me:p%40ss@")
    assert "Authorization: Basic bWU6cEBzcw==" in headers


@pytest.mark.parametrize("url", ["http://a b/", "http://2130706433/", "http://host:0/", "ftp://host/"])
def test_an_invalid_url_is_reported_before_anything_is_sent(url):
    with pytest.raises(StreamlingError, match="the URL is invalid"):
        Target(url, headers={}, seconds=1, max_bytes=1)
