"""Py4j's connections to the JVM, one per thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def hold_connections_once(client: Any) -> None:
    """Let ``client`` hold each connection once, so that it is closed when its thread ends.

    Py4j holds them in a deque: a call takes the connection of its thread out and puts it back, and the end of the
    thread removes it. If Java calls back, and the callback calls Java on the same thread, that thread puts its
    connection back twice. The second one stays, with its socket and its thread in the JVM: one for each run of a
    pipeline that is a member of a consumer group.
    """
    connection = client.get_thread_connection()
    client.deque = _Connections(client.deque)
    client.set_thread_connection(connection)  # at the end of this thread, too


class _Connections:
    """What Py4j needs of its deque, with each connection once; also takes the same time however many there are."""

    def __init__(self, connections: Iterable[Any]) -> None:
        self._held = dict.fromkeys(connections)

    def append(self, connection: Any) -> None:
        self._held[connection] = None

    def remove(self, connection: Any) -> None:
        try:
            del self._held[connection]
        except KeyError:
            raise ValueError("it is not held") from None

    def pop(self) -> Any:
        try:
            return self._held.popitem()[0]
        except KeyError:
            raise IndexError("no connection is held") from None

    def __len__(self) -> int:
        return len(self._held)
