"""The blocking client, as the commands for a server use it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from streamling.network.http.blocking import open_stream, send_request
from tests.harness.endpoint import Reply, endpoint


@pytest.mark.parametrize(
    ("method", "data", "sent"),
    [(None, None, "GET"), (None, b"x", "POST"), ("PUT", b"x", "PUT"), ("POST", None, "POST")],
)
def test_the_method_is_the_given_one_or_follows_from_the_data(
    method: str | None, data: bytes | None, sent: str
) -> None:
    with endpoint(lambda request: Reply(text=request.method.encode())) as server:
        response = send_request(server.url, headers={}, data=data, method=method, seconds=10, max_bytes=100)
    assert (response.status, response.body) == (200, sent.encode())


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that answers one connection with whatever ``talk`` sends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(65536)
                talk(connected)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/lines?follow=true"
        finally:
            thread.join()


def test_lines_of_a_stream_are_read_as_they_arrive() -> None:
    read = threading.Event()

    def talk(connected: socket.socket) -> None:
        connected.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
        read.wait(30)  # the second line follows only when the first has been read
        connected.sendall(b"4\r\ntwo\n\r\n0\r\n\r\n")

    with talking(talk) as url, open_stream(url, headers={"X-Key": "1"}, seconds=10) as response:
        assert response.status == 200
        assert response.body.readline() == b"one\n"
        read.set()
        assert response.body.readline() == b"two\n"
        assert response.body.readline() == b""


def test_only_the_beginning_of_a_stream_has_a_time_limit() -> None:
    waited = threading.Event()

    def talk(connected: socket.socket) -> None:
        connected.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        waited.wait(0.5)  # longer than the limit of the request
        connected.sendall(b"late\n")

    with talking(talk) as url, open_stream(url, headers={}, seconds=0.2) as response:
        assert response.body.readline() == b"late\n"


def test_a_stream_that_does_not_begin_in_time_raises() -> None:
    ended = threading.Event()

    def talk(_: socket.socket) -> None:
        ended.wait(30)

    with talking(talk) as url:
        with pytest.raises(TimeoutError), open_stream(url, headers={}, seconds=0.2):
            pytest.fail("there was no response")
        ended.set()


def test_a_stream_that_cannot_be_opened_raises() -> None:
    with pytest.raises(ConnectionRefusedError), open_stream("http://127.0.0.1:1/", headers={}, seconds=5):
        pytest.fail("nobody listens there")
