"""Fronts for an HTTP service.

One asks for a password, which Apicurio alone can only do with Keycloak; the other lets a test act when a request
passes.
"""

from __future__ import annotations

import base64
import itertools
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def password_asked(url: str, user: str, password: str) -> Iterator[str]:
    """The URL under which ``url`` answers those who know ``user`` and ``password``, and 401 to everybody else."""
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    with _front(url, is_allowed=lambda headers: headers.get("Authorization") == expected) as address:
        yield address


@contextmanager
def watched(url: str, before: Callable[[int], None]) -> Iterator[str]:
    """The URL under which ``url`` answers; ``before`` is called with the number of each request, from 1 on, before it
    is passed on."""
    numbers, lock = itertools.count(1), threading.Lock()

    def pass_on() -> None:
        with lock:
            before(next(numbers))

    with _front(url, before=pass_on) as address:
        yield address


@contextmanager
def _front(
    url: str,
    *,
    is_allowed: Callable[[Message], bool] = lambda headers: True,
    before: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    class Front(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not is_allowed(self.headers):
                self.reply(401, b'{"error_code":401,"message":"Unauthorized"}', "application/json")
                return
            before()
            kept = {name: value for name in ("Content-Type", "Accept") if (value := self.headers.get(name))}
            request = urllib.request.Request(url + self.path, body or None, kept, method=self.command)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    self.reply(answer.status, answer.read(), answer.headers.get("Content-Type", ""))
            except urllib.error.HTTPError as error:
                with error:
                    self.reply(error.code, error.read(), error.headers.get("Content-Type", ""))

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the names are http.server's

        def reply(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if status == 401:
                self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Front) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
