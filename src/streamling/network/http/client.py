"""The HTTP client of a pipeline: one event loop on its own thread, one connection pool for all nodes."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar
from urllib.parse import urljoin

from streamling.errors import StreamlingError, Unreachable
from streamling.network.http.connection import Response
from streamling.network.http.errors import ConnectFailedError, NoResponseError, ResponseTooLargeError
from streamling.network.http.pool import Pool
from streamling.network.http.request import InvalidUrlError, Origin, Request, origin_of
from streamling.network.policy import NetworkPolicy
from streamling.pipeline.document.scalars import redact_url

ResultT = TypeVar("ResultT")

#: redirects that keep method and body
_REDIRECTS: Final = (307, 308)
_MAX_REDIRECTS: Final = 5


class Target:
    """Where and how requests are sent."""

    def __init__(self, url: str, *, headers: Mapping[str, str], seconds: float, max_bytes: int) -> None:
        """``seconds`` is the time limit for a whole response, ``max_bytes`` its maximum size."""
        self.url = url
        self.headers = dict(headers)
        self.seconds = seconds
        self.max_bytes = max_bytes
        self.request = self.request_to(url)

    @property
    def shown(self) -> str:
        return f"POST {redact_url(self.url)}"

    def request_to(self, url: str) -> Request:
        try:
            return Request(url, self.headers)
        except InvalidUrlError:
            raise StreamlingError.user(f"{self.shown}: the URL is invalid", remedy="check url") from None


class HttpClient:
    """Thread-safe, except `post`, which must be called within `run`."""

    def __init__(self, network: NetworkPolicy) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="http", daemon=True)
        self._thread.start()
        #: origins that have responded: later failures are outages
        self._responded: set[Origin] = set()
        self._pool = self.run(_open_pool(network)).result()

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

    async def post(self, target: Target, body: bytes) -> Response:
        """Return the response, after redirects within the same origin, within the total time of ``target``. Raises
        transient errors for failures that a retry may fix."""
        deadline = self._loop.time() + target.seconds
        response = await self._once(target, target.request, body, deadline)
        if response.location is None or response.status not in _REDIRECTS:
            return response
        return await self._follow_redirects(target, response, body, deadline)

    async def _follow_redirects(self, target: Target, response: Response, body: bytes, deadline: float) -> Response:
        url = target.url
        for _ in range(_MAX_REDIRECTS - 1):
            url = _redirected_url(target, url, response.location or "")
            response = await self._once(target, target.request_to(url), body, deadline)
            if response.status not in _REDIRECTS or not response.location:
                return response
        raise StreamlingError.user(
            f"{target.shown} is redirected too many times", remedy="set url to the final address"
        )

    async def _once(self, target: Target, request: Request, body: bytes, deadline: float) -> Response:
        pool = self._pool
        try:
            connection = await pool.acquire(request.origin, deadline)
            response = await connection.exchange(request.text(body), max_bytes=target.max_bytes, deadline=deadline)
        except ResponseTooLargeError:
            raise StreamlingError.user(
                f"{target.shown} returned more than {target.max_bytes} bytes",
                remedy="send fewer rows per request (batch_size), or raise external_http_handler.max_response_bytes",
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise StreamlingError.user(
                f"{target.shown}: the server's certificate cannot be verified ({error.verify_message})",
                remedy="install a certificate from a known authority on the server, or set SSL_CERT_FILE to yours",
            ) from None
        except TimeoutError:
            raise StreamlingError.transient(f"{target.shown}: no response within {target.seconds:g} s") from None
        except ConnectFailedError as error:
            raise self._unavailable_error(target, request, str(error)) from None
        except NoResponseError as error:
            raise StreamlingError.transient(f"{target.shown}: {error}") from None
        pool.release(request.origin, connection)
        self._responded.add(request.origin)
        return response

    def _unavailable_error(self, target: Target, request: Request, reason: str) -> StreamlingError:
        if request.origin in self._responded:
            return StreamlingError.transient(f"{target.shown}: {reason}")
        return Unreachable(f"{target.shown}: {reason}", remedy="start the service, or correct `url`")

    async def _close(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._pool.close()
        await self._loop.shutdown_default_executor()


async def _open_pool(network: NetworkPolicy) -> Pool:
    """Create the pool, which belongs to the running loop."""
    return Pool(network)


def _redirected_url(target: Target, url: str, location: str) -> str:
    """Return the address in ``location``. Headers, credentials and rows are only sent to the origin of the target."""
    try:
        joined = urljoin(url, location)
        old, new = origin_of(target.url), origin_of(joined)
    except ValueError:
        raise StreamlingError.user(f"{target.shown} is redirected to an invalid URL") from None
    if new != old:
        raise StreamlingError.user(
            f"{target.shown} is redirected from {old} to {new}, which is not allowed",
            remedy="set url to the address that should be called",
        )
    return joined
