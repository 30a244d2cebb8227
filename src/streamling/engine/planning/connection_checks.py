"""Checks every connection of a pipeline: its state backend, and what its nodes connect to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from streamling.errors import StreamlingError
from streamling.plugins.connections import ConnectionCheck

#: connections that are checked at the same time
_AT_A_TIME = 8


@dataclass(frozen=True)
class NodeConnection:
    """A connection, and the node that needs it."""

    node: str
    connection: ConnectionCheck


@dataclass(frozen=True)
class ConnectionResult:
    """The result of a connection check."""

    node: str
    kind: str
    #: where it is, without credentials
    target: str
    seconds: float
    #: details for the reader, if it succeeded
    remark: str | None = None
    #: why the node could not use it; None if it could
    error: str | None = None
    remedy: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def latency(self) -> str:
        return f"{self.seconds * 1000:.0f} ms"


def check_connections(
    connections: Iterable[NodeConnection], start_spark: Callable[[], object]
) -> list[ConnectionResult]:
    """Check all of them, several at a time; results are in the same order. ``start_spark`` is called first if one of
    them needs it."""
    connections = list(connections)
    if any(one.connection.uses_spark for one in connections):
        start_spark()
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="connection") as pool:
        return list(pool.map(_tried, connections))


def _tried(one: NodeConnection) -> ConnectionResult:
    connection, began = one.connection, time.monotonic()
    remark = error = remedy = None
    try:
        remark = connection.check()
    except StreamlingError as failure:
        error, remedy = failure.with_causes, failure.remedy
    except Exception as failure:  # of a plugin
        error = f"{type(failure).__name__}: {failure}"
    return ConnectionResult(
        one.node, connection.kind, connection.target, time.monotonic() - began, remark, error, remedy
    )
