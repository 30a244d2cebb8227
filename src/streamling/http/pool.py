"""Connections that wait for the next request, and how new ones are made."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from functools import cached_property
from typing import Final

from streamling.errors import StreamlingError
from streamling.http.addresses import is_address, is_private
from streamling.http.connection import Connection
from streamling.http.errors import ConnectFailedError, NoResponseError
from streamling.http.request import Origin

CONNECT_SECONDS: Final = 10.0
#: an idle connection is closed after this
_IDLE_SECONDS: Final = 20.0
#: how long the addresses of a name are remembered: a server that closes every connection is not looked up each time
_NAME_SECONDS: Final = 10.0


class Pool:
    """Used on the client's thread only. Those who call limit themselves."""

    def __init__(self, *, deny_private: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._deny_private = deny_private
        self._open: set[Connection] = set()
        self._idle: dict[Origin, list[Connection]] = {}
        self._names: dict[str, tuple[float, list[str]]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def take(self, origin: Origin, deadline: float) -> Connection:
        """A connection for one request: the one that was used last, or a new one."""
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            if connection.reusable:
                return connection
        return await self._connect(origin, deadline)

    def release(self, origin: Origin, connection: Connection) -> None:
        """After an answer."""
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
        await asyncio.gather(*(connection.gone for connection in self._open))

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
            raise ConnectFailedError(f"no connection within {seconds:g} s") from None
        self._open.add(connection)
        connection.gone.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    async def _first(self, origin: Origin, addresses: list[str], seconds: float) -> Connection:
        """A connection to the first of ``addresses`` that takes one within ``seconds``."""
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
            raise NoResponseError(f"no TLS with the server ({error.reason or 'the connection broke'})") from None
        except OSError as error:
            raise ConnectFailedError(os.strerror(error.errno).lower() if error.errno else "no connection") from None
        return connection

    async def _addresses(self, origin: Origin) -> list[str]:
        """Where the connection may lead. It goes to the addresses that were looked at, so a name cannot change its
        meaning in between."""
        host = origin.host
        found = [host] if is_address(host) else await self._resolved(host)
        if self._deny_private:
            for address in found:
                if is_private(address):
                    raise _refused(host, address)
        return found

    async def _resolved(self, host: str) -> list[str]:
        until, found = self._names.get(host, (0.0, []))
        if self._loop.time() < until:
            return found
        try:
            results = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError):
            raise ConnectFailedError(f"the name '{host}' cannot be resolved") from None
        found = list(dict.fromkeys(str(address[0]) for *_, address in results))
        self._names[host] = (self._loop.time() + _NAME_SECONDS, found)
        return found

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Only made for those who need it: reading the authorities takes 50 ms."""
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


def _refused(host: str, address: str) -> StreamlingError:
    leads = "is" if host == address else f"leads to {address}, which is"
    return StreamlingError.user(
        f"'{host}' {leads} a private address, and network.deny_private is on",
        remedy="use a public address, or turn network.deny_private off",
    )
