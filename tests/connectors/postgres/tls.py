"""A TLS front for a Postgres server that was built without TLS: does the handshake and forwards the rest."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme

_SSL_REQUEST = struct.pack("!ii", 8, 80877103)


@contextmanager
def tls_front(backend_port: int, folder: Path, *, host: str) -> Iterator[tuple[int, Path]]:
    """Return port and trusted certificate of a front whose own certificate is for ``host``."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, context, backend_port), daemon=True)
        thread.start()
        yield listener.getsockname()[1], folder / "ca.pem"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _serve(listener: socket.socket, context: ssl.SSLContext, backend_port: int) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_handle, args=(client, context, backend_port), daemon=True).start()


def _handle(client: socket.socket, context: ssl.SSLContext, backend_port: int) -> None:
    with suppress(OSError), client, socket.create_connection(("127.0.0.1", backend_port)) as backend:
        if client.recv(8) != _SSL_REQUEST:
            return  # only encrypted connections are accepted
        client.sendall(b"S")
        with context.wrap_socket(client, server_side=True) as encrypted:
            there = threading.Thread(target=_copy, args=(encrypted, backend), daemon=True)
            there.start()
            _copy(backend, encrypted)
            there.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
