"""A real HTTP server on loopback that remembers what it was sent and answers as a test wants it to."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """What arrived; ``number`` counts from 1."""

    number: int
    path: str
    headers: dict[str, str]
    text: bytes
    method: str = "POST"

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def rows(self) -> list[Any]:
        return self.json if isinstance(self.json, list) else [self.json]


@dataclass(frozen=True)
class Reply:
    """What is answered. ``drop`` closes the connection without a word, ``cut`` in the middle of the answer."""

    status: int = 200
    text: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    drop: bool = False
    cut: bool = False

    @staticmethod
    def of(value: Any, **fields: Any) -> Reply:
        return Reply(text=json.dumps(value).encode(), **fields)


def echo(request: Request) -> Reply:
    return Reply(text=request.text)


class Endpoint:
    """The server. ``answer`` may be changed at any time."""

    def __init__(self, answer: Callable[[Request], Reply], scheme: str) -> None:
        self.answer = answer
        #: all of them, and those that were answered with success
        self.requests: list[Request] = []
        self.accepted: list[Request] = []
        self.connections = 0
        self.at_once = self.most_at_once = 0
        self.scheme = scheme
        self.port = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/rows"

    @property
    def rows(self) -> list[Any]:
        """Rows of all requests that were answered with success, in the order of the answers."""
        return [row for request in list(self.accepted) for row in request.rows]

    def take(self, path: str, headers: dict[str, str], text: bytes, method: str) -> Reply:
        with self._lock:
            request = Request(len(self.requests) + 1, path, headers, text, method)
            self.requests.append(request)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            reply = self.answer(request)
            time.sleep(reply.seconds)
        finally:
            with self._lock:
                self.at_once -= 1
        if 200 <= reply.status < 300 and not reply.drop and not reply.cut:
            with self._lock:
                self.accepted.append(request)
        return reply


@contextmanager
def endpoint(
    answer: Callable[[Request], Reply] = lambda request: Reply(), *, tls: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[Endpoint]:
    """An endpoint that is there until the end of the block."""
    made = Endpoint(answer, "https" if tls else "http")
    with _Server(("127.0.0.1", port), _handler(made)) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        made.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # idle connections stay open on the client's side
    request_queue_size = 128

    def handle_error(self, request: Any, address: Any) -> None:
        """Clients that go away are part of the tests."""


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            endpoint.connections += 1

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = endpoint.take(self.path, dict(self.headers), text, self.command)
            if reply.drop:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.text)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.text[: len(reply.text) // 2] if reply.cut else reply.text)
            self.close_connection |= reply.cut

        def do_GET(self) -> None:
            self.do_POST()

        def do_PUT(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    return Handler
