"""A machine of the attacker: it understands enough of each protocol to be sent the credentials, and remembers them."""

from __future__ import annotations

import base64
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Kafka's requests
_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_POSTGRES_SSL, _POSTGRES_GSS = 80877103, 80877104


class Listener:
    """Everything that was sent to it."""

    def __init__(self) -> None:
        self.port = 0
        self.received = b""
        self.connections = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def text(self) -> str:
        """What was sent, with the credentials of `Authorization` decoded."""
        text = self.received.decode("latin-1")
        tokens = [line.split()[-1] for line in text.splitlines() if line.lower().startswith("authorization: basic ")]
        return "\n".join([text, *(base64.b64decode(token).decode("latin-1") for token in tokens)])


@contextmanager
def listening() -> Iterator[Listener]:
    made = Listener()

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            made.connections += 1
            self.request.settimeout(20)
            with suppress(OSError, struct.error):
                _talk(self.request, made)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Connection) as server:
        made.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


def _talk(peer: socket.socket, made: Listener) -> None:
    while data := peer.recv(65536):
        made.received += data
        if b" HTTP/1." in data:
            peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            return
        if data[:1] == b"p":  # a password for Postgres
            peer.sendall(_error(b"SFATAL\0C28P01\0Mpassword authentication failed\0\0"))
            return
        if len(data) > 6 and data[4:6] == struct.pack("!h", _AUTHENTICATE):
            return
        if (answer := _postgres(data)) is not None or (answer := _kafka(data)) is not None:
            peer.sendall(answer)


def _error(fields: bytes) -> bytes:
    return b"E" + struct.pack("!i", 4 + len(fields)) + fields


def _postgres(data: bytes) -> bytes | None:
    """Asks for the password in plain text."""
    if len(data) < 8 or data[4:6] not in (b"\x00\x03", b"\x04\xd2"):
        return None
    (code,) = struct.unpack_from("!i", data, 4)
    if code in (_POSTGRES_SSL, _POSTGRES_GSS):
        return b"N"
    return b"R" + struct.pack("!ii", 8, 3)


def _kafka(data: bytes) -> bytes | None:
    """Accepts SASL PLAIN."""
    if len(data) < 12:
        return None
    _, api, version, correlation = struct.unpack_from("!ihhi", data)
    head = struct.pack("!i", correlation)
    if api == _API_VERSIONS and version == 0:
        known = ((_API_VERSIONS, 0, 0), (_HANDSHAKE, 0, 1), (_AUTHENTICATE, 0, 1), (3, 0, 1))
        body = struct.pack("!hi", 0, len(known)) + b"".join(struct.pack("!hhh", *each) for each in known)
    elif api == _API_VERSIONS:
        body = struct.pack("!hi", 35, 0)  # an older version, please
    elif api == _HANDSHAKE:
        body = struct.pack("!hih", 0, 1, 5) + b"PLAIN"
    else:
        return None
    return struct.pack("!i", len(head + body)) + head + body
