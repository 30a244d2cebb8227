"""Clients that connect and do not ask, or ask slowly: they are disconnected, and others get answers meanwhile."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from urllib.request import urlopen

import pytest

pytestmark = pytest.mark.slow

#: the files that the server may open, of which connections may be a quarter
FILES, CONNECTIONS = 1000, 250
SERVER = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from starlette.responses import PlainTextResponse
from streamling.serve.admin.guard import guarded_by_token
from streamling.serve.admin.server import bound, create_server
listening = bound("127.0.0.1", 0)
print(listening.getsockname()[1], flush=True)
create_server(guarded_by_token(PlainTextResponse("answered"), None)).run(sockets=[listening])
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def answer(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/", timeout=30) as response:
        return str(response.read().decode())


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def trickle(connection: socket.socket, text: bytes) -> None:
    """Send ``text`` byte by byte, for ever."""
    with suppress(OSError):
        while True:
            connection.sendall(text)
            time.sleep(0.5)


@pytest.mark.parametrize(
    ("sent", "repeated"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b""),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"x"),
        (b"", b"\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\r\n"),
    ],
    ids=["nothing", "half of the headers", "a header that does not end", "empty lines", "empty lines after a request"],
)
def test_a_client_that_does_not_complete_its_headers_is_disconnected(port, sent, repeated):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(sent)
        if repeated:
            threading.Thread(target=trickle, args=(connection, repeated), daemon=True).start()
        with suppress(ConnectionResetError):
            while connection.recv(4096):
                pass  # the answer to the complete request
    assert answer(port) == "answered"


def test_half_open_connections_do_not_keep_others_out(port):
    with ExitStack() as held:
        half_open = []
        for _ in range(3 * CONNECTIONS):
            half_open.append(held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)))
            half_open[-1].sendall(b"GET / HTTP/1.1\r\n")
        assert answer(port) == "answered"
        assert sum(map(is_open, half_open)) <= CONNECTIONS


def test_a_client_that_does_not_send_its_body_is_answered_and_a_large_head_is_refused(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n1234")
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n")
        with suppress(ConnectionResetError):
            assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")
    assert answer(port) == "answered"
