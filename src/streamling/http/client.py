"""The HTTP client of a pipeline: one event loop on a thread of its own, one pool of connections for all nodes.

aiohttp because it takes the least processor time per request: 4000 posts of one row, 25 at a time, took it 0.6 s,
urllib3 on 25 threads 0.9 s, niquests 2.5 s and httpx 9 s. It costs 0.2 s to import, so this module is only loaded when
data is about to flow.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Post:
    """One request."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    #: longest wait for the whole answer
    seconds: float
    #: longest answer
    most_bytes: int

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

    def close(self) -> None:
        self.run(self._close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def post(self, post: Post) -> Answer:
        """The answer, after redirects on the same host. Raises transient errors for what may pass by itself."""
        url = post.url
        for _ in range(_MOST_REDIRECTS):
            self._check(url)
            answer, location = await self._once(url, post)
            if answer.status not in _REDIRECTS or location is None:
                return answer
            url = _same_host(post, url, urljoin(url, location))
        raise StreamlingError.user(f"{post.shown} is redirected again and again", remedy="set url to the last address")

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

    def _check(self, url: str) -> None:
        host = urlsplit(url).hostname or ""
        if self._deny_private and is_address(host) and is_private(host):
            raise _refused(host, host)

    async def _once(self, url: str, post: Post) -> tuple[Answer, str | None]:
        timeout = aiohttp.ClientTimeout(total=post.seconds, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.post(
                url, data=post.body, headers=post.headers, timeout=timeout, allow_redirects=False
            ) as response:
                body = await _read(response, post)
                answer = Answer(response.status, response.reason or "", body, _retry_after(response))
                return answer, response.headers.get("Location")
        except aiohttp.ClientConnectorCertificateError as error:
            raise StreamlingError.user(
                f"{post.shown}: the certificate of the server cannot be verified ({error.certificate_error})",
                remedy="let the server send a certificate of a known authority, or name yours in SSL_CERT_FILE",
            ) from None
        except aiohttp.InvalidURL:
            raise StreamlingError.user(f"{post.shown} is no address that can be called", remedy="check url") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise StreamlingError.transient(f"{post.shown}: {_reason(error, post)}") from None


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


def _refused(host: str, address: str) -> StreamlingError:
    leads = "is" if host == address else f"leads to {address}, which is"
    return StreamlingError.user(
        f"'{host}' {leads} a private address, and network.deny_private is on",
        remedy="use a public address, or turn network.deny_private off",
    )


def _same_host(post: Post, url: str, target: str) -> str:
    """``target`` when it is no other host and no way back from TLS."""
    old, new = urlsplit(url), urlsplit(target)
    if new.hostname != old.hostname or new.scheme not in ("http", "https"):
        raise StreamlingError.user(
            f"{post.shown} is redirected to another host, '{new.hostname}', which is not followed",
            remedy="set url to the address that should be called",
        )
    if old.scheme == "https" and new.scheme == "http":
        raise StreamlingError.user(f"{post.shown} is redirected from https to http, which is not followed")
    return target


async def _read(response: aiohttp.ClientResponse, post: Post) -> bytes:
    """The body; counted after decompression, so that a small one cannot grow without a limit."""
    parts, size = [], 0
    async for part in response.content.iter_chunked(_CHUNK):
        size += len(part)
        if size > post.most_bytes:
            raise StreamlingError.user(
                f"{post.shown} answered with more than {post.most_bytes} bytes",
                remedy="send fewer rows per request (batch_size), or raise external_http_handler.max_response_bytes",
            )
        parts.append(part)
    return b"".join(parts)


def _retry_after(response: aiohttp.ClientResponse) -> float:
    seconds = response.headers.get("Retry-After", "")
    return float(seconds) if seconds.isascii() and seconds.isdigit() else 0.0


def _reason(error: BaseException, post: Post) -> str:
    """Why there is no answer. The library's own texts are not used: some of them hold the address with its secrets."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return f"no connection within {_CONNECT_SECONDS:g} s"
        case TimeoutError():
            return f"no answer within {post.seconds:g} s"
        case aiohttp.ClientConnectorDNSError():
            return f"the name '{error.host}' cannot be resolved"
        case aiohttp.ClientConnectorError():
            return (error.os_error.strerror or "no connection").lower()
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionError():
            return "the connection broke before the answer was complete"
        case aiohttp.ClientResponseError() | aiohttp.http.HttpProcessingError():
            return "the answer is not HTTP"
    return f"no answer ({type(error).__name__})"
