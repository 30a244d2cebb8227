"""A port in front of a service that a test opens and closes, as an outage does."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class TcpFront:
    """Passes connections on to ``backend`` while it is open; `close` breaks them. The port stays the same."""

    def __init__(self, backend: int) -> None:
        self._backend = backend
        self._listener: socket.socket | None = None
        self._ends: list[socket.socket] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def open(self) -> TcpFront:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def open_after(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self.open)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        for end in (self._listener, *self._ends):
            if end is not None:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self._listener, self._ends = None, []

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                backend = socket.create_connection(("127.0.0.1", self._backend))
                self._ends += [client, backend]
                for source, target in ((client, backend), (backend, client)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
