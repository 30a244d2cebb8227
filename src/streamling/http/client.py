"""The HTTP client of a pipeline: one event loop on a thread of its own, one pool of connections for all nodes.

aiohttp because it takes the least processor time per request: 4000 posts of one row, 25 at a time, took it 0.6 s,
urllib3 on 25 threads 0.9 s, niquests 2.5 s and httpx 9 s. It costs 0.2 s to import, so this module is only loaded when
data is about to flow.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, TypeVar
from urllib.parse import urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from streamling import __version__
from streamling.errors import StreamlingError
from streamling.http.addresses import is_address, is_private
from streamling.pipeline.scalars import redact_url

ResultT = TypeVar("ResultT")

_CONNECT_SECONDS: Final = 10.0
#: an idle connection is closed after this
_IDLE_SECONDS: Final = 20.0
#: redirects that keep method and body
_REDIRECTS: Final = (307, 308)
_MOST_REDIRECTS: Final = 5
#: bytes read of an answer at a time
_CHUNK: Final = 65536


class Target:
    """Where and how requests are sent."""

    def __init__(self, url: str, *, headers: Mapping[str, str], seconds: float, most_bytes: int) -> None:
        """``seconds`` is the longest wait for a whole answer, ``most_bytes`` the longest answer."""
        self.url = url
        self.headers = dict(headers)
        self.seconds = seconds
        self.most_bytes = most_bytes
        self.timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)

    @property
    def shown(self) -> str:
        return f"POST {redact_url(self.url)}"


@dataclass(frozen=True)
class Answer:
    """What came back, whatever its status."""

    status: int
    reason: str
    body: bytes
    #: seconds after which the server wants to be asked again
    retry_after: float = 0.0
    location: str | None = None


class HttpClient:
    """Methods may be called from any thread, `post` within `run` only."""

    def __init__(self, *, deny_private: bool) -> None:
        self._deny_private = deny_private
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="http", daemon=True)
        self._thread.start()
        self._session = self.run(self._open()).result()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Start ``work`` on the client's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def soon(self, call: Callable[[], object]) -> None:
        """Call ``call`` on the client's thread."""
        self._loop.call_soon_threadsafe(call)

    def close(self) -> None:
        self.run(self._close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def post(self, target: Target, body: bytes) -> Answer:
        """The answer, after redirects on the same host. Raises transient errors for what may pass by itself."""
        url = target.url
        for _ in range(_MOST_REDIRECTS):
            if self._deny_private:
                _check_public(url)
            answer = await self._once(target, url, body)
            if answer.status not in _REDIRECTS or not answer.location:
                return answer
            url = _same_host(target, url, urljoin(url, answer.location))
        raise StreamlingError.user(
            f"{target.shown} is redirected again and again", remedy="set url to the last address"
        )

    async def _open(self) -> aiohttp.ClientSession:
        resolver = _PublicOnly() if self._deny_private else ThreadedResolver()
        connector = aiohttp.TCPConnector(
            limit=0,  # those who call limit themselves
            keepalive_timeout=_IDLE_SECONDS,
            resolver=resolver,
            ssl=ssl.create_default_context(),
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": f"streamling/{__version__}"},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def _close(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._session.close()

    async def _once(self, target: Target, url: str, body: bytes) -> Answer:
        # aiohttp warns of long bodies that are not streams
        data = BytesIO(body) if len(body) > _CHUNK else body
        try:
            async with self._session.post(
                url, data=data, headers=target.headers, timeout=target.timeout, allow_redirects=False
            ) as response:
                text, headers = await _read(response, target), response.headers
                return Answer(
                    response.status,
                    response.reason or "",
                    text,
                    _seconds(headers.get("Retry-After")),
                    headers.get("Location"),
                )
        except aiohttp.ClientConnectorCertificateError as error:
            raise StreamlingError.user(
                f"{target.shown}: the certificate of the server cannot be verified ({error.certificate_error})",
                remedy="let the server send a certificate of a known authority, or name yours in SSL_CERT_FILE",
            ) from None
        except aiohttp.InvalidURL:
            raise StreamlingError.user(f"{target.shown} is no address that can be called", remedy="check url") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StreamlingError.transient(f"{target.shown}: {_reason(error, target)}") from None


class _PublicOnly(AbstractResolver):
    """Resolves names, and refuses those that lead to a private address. The connection goes to the addresses that were
    looked at, so a name cannot change its meaning in between."""

    def __init__(self) -> None:
        self._names = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._names.resolve(host, port, family)
        for result in found:
            if is_private(result["host"]):
                raise _refused(host, result["host"])
        return found

    async def close(self) -> None:
        await self._names.close()


def _check_public(url: str) -> None:
    host = urlsplit(url).hostname or ""
    if is_address(host) and is_private(host):
        raise _refused(host, host)


def _refused(host: str, address: str) -> StreamlingError:
    leads = "is" if host == address else f"leads to {address}, which is"
    return StreamlingError.user(
        f"'{host}' {leads} a private address, and network.deny_private is on",
        remedy="use a public address, or turn network.deny_private off",
    )


def _same_host(target: Target, url: str, location: str) -> str:
    """``location`` when it is no other host and no way back from TLS."""
    old, new = urlsplit(url), urlsplit(location)
    if new.hostname != old.hostname or new.scheme not in ("http", "https"):
        raise StreamlingError.user(
            f"{target.shown} is redirected to another host, '{new.hostname}', which is not followed",
            remedy="set url to the address that should be called",
        )
    if old.scheme == "https" and new.scheme == "http":
        raise StreamlingError.user(f"{target.shown} is redirected from https to http, which is not followed")
    return location


async def _read(response: aiohttp.ClientResponse, target: Target) -> bytes:
    """The body; counted after decompression, so that a small one cannot grow without a limit."""
    length = response.content_length
    if length is not None and length <= target.most_bytes and "Content-Encoding" not in response.headers:
        return await response.read()
    parts, size = [], 0
    async for part in response.content.iter_chunked(_CHUNK):
        size += len(part)
        if size > target.most_bytes:
            raise StreamlingError.user(
                f"{target.shown} answered with more than {target.most_bytes} bytes",
                remedy="send fewer rows per request (batch_size), or raise external_http_handler.max_response_bytes",
            )
        parts.append(part)
    return b"".join(parts)


def _seconds(header: str | None) -> float:
    return float(header) if header is not None and header.isascii() and header.isdigit() else 0.0


def _reason(error: BaseException, target: Target) -> str:
    """Why there is no answer. The library's own texts are not used: some of them hold the address with its secrets."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return f"no connection within {_CONNECT_SECONDS:g} s"
        case TimeoutError():
            return f"no answer within {target.seconds:g} s"
        case aiohttp.ClientConnectorDNSError():
            return f"the name '{error.host}' cannot be resolved"
        case aiohttp.ClientConnectorError():
            return os.strerror(error.os_error.errno).lower() if error.os_error.errno else "no connection"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionError():
            return "the connection broke before the answer was complete"
        case aiohttp.ClientResponseError() | aiohttp.http.HttpProcessingError():
            return "the answer is not HTTP"
    return f"no answer ({type(error).__name__})"
