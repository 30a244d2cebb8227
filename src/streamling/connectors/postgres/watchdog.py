"""Shuts down connections whose server does not respond."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg


class Watchdog:
    """Shuts down connections that have been watched for longer than their limit. One thread watches all of them, and
    sleeps while there are none. Thread-safe.

    Neither TCP keep-alive nor `tcp_user_timeout` detects a peer whose kernel responds while the server behind it does
    not (a proxy, a frozen host), and psycopg waits forever. Shutting down its socket ends the wait.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: when each connection is shut down; infinite if it has been
        self._deadlines: dict[psycopg.Connection, float] = {}
        #: when the thread looks again; infinite if not before it is notified
        self._wakes_at = float("inf")
        self._is_closed = False
        threading.Thread(target=self._run, name="postgres watchdog", daemon=True).start()

    def watch(self, connection: psycopg.Connection, limit: float) -> None:
        deadline = time.monotonic() + limit
        with self._changed:
            self._deadlines[connection] = deadline
            if deadline < self._wakes_at:  # seldom: an exchange takes less time than the thread sleeps
                self._changed.notify()

    def release(self, connection: psycopg.Connection) -> bool:
        """End the watch; return True if the connection was shut down."""
        with self._changed:
            return self._deadlines.pop(connection) == float("inf")

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                for connection, deadline in self._deadlines.items():
                    if deadline <= now:
                        self._deadlines[connection] = float("inf")
                        _shut_down_socket(connection)
                self._wakes_at = min(self._deadlines.values(), default=float("inf"))
                self._changed.wait(None if self._wakes_at == float("inf") else self._wakes_at - now)


def _shut_down_socket(connection: psycopg.Connection) -> None:
    with suppress(OSError, ValueError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)
