"""A server in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.harness.pipelines import eventually


@contextmanager
def started(server: Any, listening: socket.socket) -> Iterator[int]:
    """The port of ``server``, which serves ``listening`` while the block runs."""
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    eventually(lambda: server.started)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
