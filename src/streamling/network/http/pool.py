"""Idle connections for reuse, and how new ones are opened."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from functools import cached_property
from typing import Final

from streamling.network.addresses import is_address
from streamling.network.http.connection import Connection
from streamling.network.http.errors import ConnectFailedError, NoResponseError
from streamling.network.http.request import Origin
from streamling.network.policy import NetworkPolicy

CONNECT_SECONDS: Final = 10.0
#: time after which an idle connection is closed
_IDLE_SECONDS: Final = 20.0
#: how long resolved addresses are cached, so that a server that closes every connection is not resolved each time
_NAME_SECONDS: Final = 10.0


class Pool:
    """Used on the client's thread only. Callers limit the number of connections."""

    def __init__(self, network: NetworkPolicy) -> None:
        self._loop = asyncio.get_running_loop()
        self._network = network
        self._open: set[Connection] = set()
        self._idle: dict[Origin, list[Connection]] = {}
        self._names: dict[str, tuple[float, list[str]]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def acquire(self, origin: Origin, deadline: float) -> Connection:
        """Return a connection for one request: the most recently used one, or a new one."""
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            if connection.reusable:
                return connection
        return await self._connect(origin, deadline)

    def release(self, origin: Origin, connection: Connection) -> None:
        """Return a connection to the pool after a response."""
        if not connection.reusable:
            return
        self._idle.setdefault(origin, []).append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(_IDLE_SECONDS, self._close_idle)

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._open:
            connection.close()
        await asyncio.gather(*(connection.closed for connection in self._open))

    def _close_idle(self) -> None:
        self._sweep = None
        oldest = self._loop.time() - _IDLE_SECONDS
        for origin, waiting in list(self._idle.items()):
            for connection in waiting:
                if connection.idle_since <= oldest:
                    connection.close()
            self._idle[origin] = [connection for connection in waiting if connection.reusable]
        if any(self._idle.values()):
            self._sweep = self._loop.call_later(_IDLE_SECONDS / 4, self._close_idle)

    async def _connect(self, origin: Origin, deadline: float) -> Connection:
        seconds = min(CONNECT_SECONDS, deadline - self._loop.time())
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._addresses(origin)
                connection = await self._first(origin, addresses, seconds / len(addresses))
        except TimeoutError:
            raise ConnectFailedError(f"connection timed out after {seconds:g} s") from None
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    async def _first(self, origin: Origin, addresses: list[str], seconds: float) -> Connection:
        """Connect to the first of ``addresses`` that accepts a connection within ``seconds``."""
        *others, last = addresses
        for address in others:
            try:
                async with asyncio.timeout(seconds):
                    return await self._one(origin, address)
            except (OSError, NoResponseError):
                continue
        return await self._one(origin, last)

    async def _one(self, origin: Origin, address: str) -> Connection:
        tls, name = (self._tls, origin.host) if origin.tls else (None, None)
        try:
            _, connection = await self._loop.create_connection(
                Connection, address, origin.port, ssl=tls, server_hostname=name
            )
        except (ssl.SSLCertVerificationError, TimeoutError):
            raise
        except ssl.SSLError as error:
            raise NoResponseError(f"TLS handshake failed ({error.reason or 'the connection broke'})") from None
        except OSError as error:
            raise ConnectFailedError(os.strerror(error.errno).lower() if error.errno else "cannot connect") from None
        return connection

    async def _addresses(self, origin: Origin) -> list[str]:
        """Return the addresses to connect to. The connection uses the addresses that were checked, so that a name
        cannot resolve to something else in between."""
        host = origin.host
        found = [host] if is_address(host) else await self._resolve(host)
        self._network.check(host, found)
        return found

    async def _resolve(self, host: str) -> list[str]:
        until, found = self._names.get(host, (0.0, []))
        if self._loop.time() < until:
            return found
        try:
            results = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError):
            raise ConnectFailedError(f"the host name '{host}' cannot be resolved") from None
        found = list(dict.fromkeys(str(address[0]) for *_, address in results))
        self._names[host] = (self._loop.time() + _NAME_SECONDS, found)
        return found

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Created on first use: loading the certificates takes 50 ms."""
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context
