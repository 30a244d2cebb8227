"""A minimal Kafka broker and schema registry: one topic, one partition, a few messages. It implements just enough for
Spark's Kafka source to read them, so that a start-up archive can be trained without Kafka."""

from __future__ import annotations

import json
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

_HOST: Final = "127.0.0.1"
_SCHEMA_ID: Final = 1
#: numbers of requests in Kafka's protocol, and the one version of each that is implemented here: the first with
#: isolation levels, since sources read committed messages only
_FETCH, _LIST_OFFSETS, _METADATA, _API_VERSIONS = 1, 2, 3, 18
_VERSIONS: Final = {_FETCH: 4, _LIST_OFFSETS: 2, _METADATA: 4, _API_VERSIONS: 0}
_UNSUPPORTED_VERSION: Final = 35
_EARLIEST: Final = -2
#: seconds that a reader at the end of the topic waits for more messages
_IDLE: Final = 0.1


@dataclass(frozen=True)
class FakeKafka:
    """Its addresses."""

    brokers: str
    registry_url: str


@contextmanager
def fake_kafka(topic: str, schema: Any, values: Sequence[bytes]) -> Iterator[FakeKafka]:
    """Provide a broker with ``topic``, whose messages are ``values`` in Avro encoding, and a registry with
    ``schema``."""
    messages = [b"\0" + _SCHEMA_ID.to_bytes(4, "big") + value for value in values]
    with (
        _serving(lambda port: _Broker((_HOST, port), _broker_of(topic, messages))) as broker,
        _serving(lambda port: ThreadingHTTPServer((_HOST, port), _registry_of(schema))) as registry,
    ):
        yield FakeKafka(f"{_HOST}:{broker}", f"http://{_HOST}:{registry}")


@contextmanager
def _serving(make: Callable[[int], socketserver.TCPServer]) -> Iterator[int]:
    """Serve on a free port, which is yielded."""
    with make(0) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


# ── registry ─────────────────────────────────────────────────────────────────────────────────────────────────


def _registry_of(schema: Any) -> type[BaseHTTPRequestHandler]:
    version = {"id": _SCHEMA_ID, "version": 1, "schema": json.dumps(schema)}

    class FakeRegistry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps([1] if self.path.endswith("/versions") else version).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    return FakeRegistry


# ── broker ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Broker(socketserver.ThreadingTCPServer):
    daemon_threads = True


def _broker_of(topic: str, messages: Sequence[bytes]) -> type[socketserver.BaseRequestHandler]:
    class Broker(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                request = self.rfile.read(struct.unpack(">i", size)[0])
                kind, version, number = struct.unpack_from(">hhi", request)
                answer = struct.pack(">i", number) + self._answer(kind, version, request)
                self.wfile.write(_sized(answer))

        def _answer(self, kind: int, version: int, request: bytes) -> bytes:
            if kind == _METADATA:
                return _metadata(topic, self.connection.getsockname()[1])
            if kind == _LIST_OFFSETS:
                *_, timestamp = struct.unpack(">iq", request[-12:])
                return _offsets(topic, 0 if timestamp == _EARLIEST else len(messages))
            if kind == _FETCH:
                _, offset, _ = struct.unpack(">iqi", request[-16:])
                if offset >= len(messages):
                    time.sleep(_IDLE)
                return _fetched(topic, len(messages), _batch(messages) if offset < len(messages) else b"")
            return _api_versions(0 if version == 0 else _UNSUPPORTED_VERSION)

    return Broker


def _api_versions(error: int) -> bytes:
    known = [struct.pack(">hhh", kind, version, version) for kind, version in _VERSIONS.items()]
    return struct.pack(">h", error) + _array(*known)


def _metadata(topic: str, port: int) -> bytes:
    broker = struct.pack(">i", 0) + _text(_HOST) + struct.pack(">ih", port, -1)
    nodes = _array(struct.pack(">i", 0))
    partition = struct.pack(">hii", 0, 0, 0) + nodes + nodes
    described = struct.pack(">h", 0) + _text(topic) + b"\0" + _array(partition)
    return struct.pack(">i", 0) + _array(broker) + _text("stand-in") + struct.pack(">i", 0) + _array(described)


def _offsets(topic: str, offset: int) -> bytes:
    return struct.pack(">i", 0) + _array(_text(topic) + _array(struct.pack(">ihqq", 0, 0, -1, offset)))


def _fetched(topic: str, end: int, records: bytes) -> bytes:
    partition = struct.pack(">ihqqi", 0, 0, end, end, -1) + _sized(records)
    return struct.pack(">i", 0) + _array(_text(topic) + _array(partition))


def _batch(messages: Sequence[bytes]) -> bytes:
    """Return all messages as one batch, from offset 0."""
    count, now = len(messages), int(time.time() * 1000)
    described = struct.pack(">hiqqqhii", 0, count - 1, now, now, -1, -1, -1, count)
    content = described + b"".join(_record(number, value) for number, value in enumerate(messages))
    return struct.pack(">q", 0) + _sized(struct.pack(">ibI", 0, 2, _crc32c(content)) + content)


def _record(number: int, value: bytes) -> bytes:
    header = _varint(6) + b"dbz.op" + _varint(1) + b"c"
    body = b"\0" + _varint(0) + _varint(number) + _varint(-1) + _varint(len(value)) + value + _varint(1) + header
    return _varint(len(body)) + body


def _array(*items: bytes) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _sized(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def _varint(number: int) -> bytes:
    rest, out = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def _crc32c(content: bytes) -> int:
    """Return the checksum of Kafka's batches; Python has only CRC-32."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
