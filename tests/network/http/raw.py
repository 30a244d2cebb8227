"""A server that sends given bytes, endless ones up to a limit, and counts them."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Any

#: limit of an endless response; a client that reads this much has no limit
MOST_BYTES = 48 << 20


class RawServer:
    """Sends the same parts in response to every request."""

    def __init__(self, parts: Sequence[Any], closes: bool, max_bytes: int) -> None:
        self.sent = 0
        self.requests: list[bytes] = []
        self._parts = parts
        self._closes = closes
        self._most = max_bytes
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with suppress(OSError):
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self._connection = connection
                connection.settimeout(10)
                try:
                    self._answer(connection)
                except OSError:  # the client has disconnected
                    continue

    def _answer(self, connection: socket.socket) -> None:
        while (request := _request(connection)) is not None:
            self.requests.append(request)
            for data in chunks(self._parts):
                if self.sent > self._most:
                    return
                connection.sendall(data)
                self.sent += len(data)
            if self._closes:
                return


def chunks(parts: Sequence[Any]) -> Iterator[bytes]:
    """Return the bytes of the parts of a response, in the notation of `tests/corpus/http/answers.yaml`."""
    for part in parts:
        match part:
            case bytes():
                yield part
            case str():
                yield part.encode("latin-1")
            case {"times": times, "text": text}:
                yield text.encode("latin-1") * times
            case {"hex": digits}:
                yield bytes.fromhex(digits)
            case {"gzip": text}:
                yield gzip.compress(text.encode())
            case {"gzip_times": [times, text]}:
                yield gzip.compress(text.encode() * times)
            case {"deflate": text}:
                yield zlib.compress(text.encode())
            case {"drip": text}:
                for byte in cycle(text.encode("latin-1")):
                    time.sleep(0.02)
                    yield bytes([byte])
            case {"endless": text}:
                yield from _endless(text.encode("latin-1"))
            case {"endless_hex": digits}:
                yield from _endless(bytes.fromhex(digits))
            case _:
                raise AssertionError(part)


def _endless(data: bytes) -> Iterator[bytes]:
    while True:
        yield data * (8192 // len(data))


def _request(connection: socket.socket) -> bytes | None:
    received = b""
    while b"\r\n\r\n" not in received:
        if not (data := connection.recv(65536)):
            return None
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    _, found, rest = head.lower().partition(b"content-length: ")
    length = int(rest.split(b"\r\n")[0]) if found else 0
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def raw_server(parts: Sequence[Any], *, closes: bool = False, max_bytes: int = MOST_BYTES) -> Iterator[RawServer]:
    made = RawServer(parts, closes, max_bytes)
    try:
        yield made
    finally:
        made.close()
