"""One endpoint as called by one node: its headers, and which responses are retried, which are fatal and which are
counted."""

from __future__ import annotations

import asyncio
import random
import time
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from streamling.connectors.http.config import HttpConfig
from streamling.connectors.http.options import HttpCall, resolve_secret
from streamling.connectors.http.payload import Body
from streamling.errors import StreamlingError, Unreachable
from streamling.network.http.client import HttpClient, Target
from streamling.network.http.connection import Response
from streamling.pipeline.document.scalars import REDACTED
from streamling.plugins.context import NodeContext
from streamling.redaction import excerpt
from streamling.retry import MAX_STARTUP_BACKOFF, RetryLog, backoff_delay, should_give_up

#: statuses that may change on a retry, as may 500 and above
_RETRIABLE_STATUSES: Final = frozenset({408, 425, 429})
#: statuses that concern the caller: no row would be accepted
_CREDENTIAL_STATUSES: Final = frozenset({401, 403, 407})
#: statuses that concern the rows sent, not the address or the caller
ROW_ERRORS: Final = frozenset({400, 409, 413, 422})
#: statuses with which an endpoint refuses rows for good
REFUSALS: Final = frozenset(range(400, 500)) - _RETRIABLE_STATUSES - _CREDENTIAL_STATUSES
#: seconds between two checks whether the pipeline is stopping
_POLL: Final = 0.2
_LONGEST_RETRY_AFTER: Final = 60.0
#: how many characters of a response an error quotes
_SHOWN: Final = 200


def secrets_in(url: str) -> set[str]:
    """Return the parts of a URL that must not be shown: user, password, their basic-auth header, and query values."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = b64encode(f"{user}:{password}".encode()).decode() if parts.username else ""
    return {text for text in (user, password, basic, *(value for _, value in parse_qsl(parts.query))) if text}


class ErrorResponse(StreamlingError):
    """The endpoint responded with an error."""

    retry_after: float = 0.0
    status: int = 0


class Endpoint:
    """Created when the node opens, closed with it. `start` and `close` are called on the node's thread."""

    def __init__(
        self, context: NodeContext[Any], *, skip_errors: bool = False, returned: frozenset[int] = frozenset()
    ) -> None:
        """Responses with a status in ``returned`` are results; other errors are retried, raised or skipped."""
        options: HttpCall = context.options
        settings = context.config.part(HttpConfig).external_http_handler
        headers = {name: value.get_secret_value() for name, value in options.headers.items()}
        secret = resolve_secret(options, context.config.part(HttpConfig))
        if secret is not None:
            headers[secret[0]] = secret[1].get_secret_value()
        hidden = {*headers.values(), *secrets_in(options.url)}
        # shorter values are not secrets, and masking them would leave nothing readable
        self._secrets = sorted((text for text in hidden if len(text) > 3), key=len, reverse=True)
        if "content-type" not in map(str.lower, headers):
            headers["Content-Type"] = "application/json"
        self._target = Target(
            options.url,
            headers=headers,
            seconds=settings.operator_timeout_sec,
            max_bytes=settings.max_response_bytes,
        )
        self._skip_errors = skip_errors
        self._returned = returned
        self._skipped_rows, self._last_error = 0, ""
        self._context = context
        self._retry_log = RetryLog(context.log, context.report_retry)
        network = context.network
        self._client = context.shared.acquire(HttpClient, lambda: HttpClient(network), network)
        self._senders = Senders(self._client, settings.buffer_size, self._send_with_retry)

    def max_calls(self, requests: int = 1) -> int:
        """Return how many calls of `start` with ``requests`` requests each may be in flight: enough for the senders and
        as many again, so that the client does not wait for the node's thread."""
        return max(4, 2 * self._senders.most // requests)

    def start(self, bodies: Sequence[Body]) -> Future[list[bytes | ErrorResponse | None]]:
        """Send ``bodies`` and retry until they are answered. The result holds the response bodies, None for skipped
        errors, and an `ErrorResponse` for a status that is to be returned."""
        return self._senders.start(bodies)

    def log_skipped(self) -> None:
        """Log what was skipped since the last call. Called when no request is in flight."""
        if self._skipped_rows:
            self._context.log.warning(
                "skipped %d rows for which the endpoint returned an error (skip_on_error); the last error: %s",
                self._skipped_rows,
                self._last_error,
            )
            self._skipped_rows = 0

    def close(self) -> None:
        self._senders.close()
        self._context.shared.release(self._client)

    # ── on the client's thread ───────────────────────────────────────────────────────────────────────────────

    async def _send_with_retry(self, body: Body) -> bytes | ErrorResponse | None:
        started, attempt = time.monotonic(), 0
        while True:
            try:
                response = await self._send_once(body)
            except ErrorResponse as error_response:
                if self._skip_errors:
                    self._skipped_rows += body.stop - body.start
                    self._last_error = str(error_response)
                    return None
                if error_response.status in self._returned:
                    return error_response
                attempt += 1
                await self._pause(error_response, attempt, started, error_response.retry_after)
            except StreamlingError as error:
                attempt += 1
                await self._pause(error, attempt, started)
            else:
                if attempt:
                    self._retry_log.recovered(attempt, time.monotonic() - started)
                return response

    async def _send_once(self, body: Body) -> bytes:
        metrics, began = self._context.metrics, time.monotonic()
        status = "none"
        try:
            response = await self._client.post(self._target, body.text)
            status = f"{response.status // 100}xx"
            self._check(response)
        except StreamlingError as error:
            outcome = "retriable_error" if error.retriable else "non_retriable_error"
            metrics.count("http_requests", tags={"outcome": outcome, "status_class": status})
            if error.retriable:
                metrics.count("http_retries", tags={"status_class": status})
            raise
        metrics.count("http_requests", tags={"outcome": "success", "status_class": status})
        metrics.latency("http_request_latency", time.monotonic() - began)
        return response.body

    def _check(self, response: Response) -> None:
        if 200 <= response.status < 300:
            return
        retriable = response.status in _RETRIABLE_STATUSES or response.status >= 500
        detail = f": {text}" if (text := self._excerpt(response.body)) else ""
        error_response = ErrorResponse(
            f"{self._target.shown} returned {response.status} {response.reason}{detail}",
            internal=retriable,
            retriable=retriable,
            remedy=None
            if retriable
            else "check the URL, the headers and what the endpoint expects; the rows are sent again after a restart",
        )
        error_response.retry_after = min(response.retry_after, _LONGEST_RETRY_AFTER)
        error_response.status = response.status
        raise error_response

    def _excerpt(self, body: bytes) -> str:
        """Return the beginning of an error body on one line, with secrets masked: an endpoint may echo the key that it
        was sent."""
        text = body[: 20 * _SHOWN].decode("utf-8", "replace")
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return "".join(char for char in excerpt(text, _SHOWN) if char.isprintable())

    async def _pause(self, error: StreamlingError, attempt: int, started: float, at_least: float = 0.0) -> None:
        """Wait before the next attempt, or raise ``error`` if there is none."""
        stopping = self._context.stopping
        if should_give_up(error, attempt, stopping):
            raise error
        delay = backoff_delay(attempt, random.random())
        if isinstance(error, Unreachable):
            delay = min(delay, MAX_STARTUP_BACKOFF)
            if time.monotonic() - started + delay > self._context.config.startup_timeout_sec:
                raise error
        if stopping.is_set():
            await asyncio.sleep(delay)
            return
        delay = max(delay, at_least)
        self._retry_log.failed(error, attempt, delay)
        end = time.monotonic() + delay
        while (left := end - time.monotonic()) > 0 and not stopping.is_set():
            await asyncio.sleep(min(left, _POLL))


WorkT = TypeVar("WorkT")
ResponseT = TypeVar("ResponseT")


class _Job(Generic[ResponseT]):
    """Requests that were started together and complete together."""

    def __init__(self, count: int) -> None:
        self.responses: list[ResponseT | None] = [None] * count
        self.left = count
        self.done: Future[list[ResponseT]] = Future()


class Senders(Generic[WorkT, ResponseT]):
    """Up to ``most`` tasks on the client's thread that take work from a queue.

    One task and one future per request, each started from the node's thread, took twice the CPU time: every start and
    every end was a thread switch.
    """

    def __init__(self, client: HttpClient, most: int, do: Callable[[WorkT], Awaitable[ResponseT]]) -> None:
        self.most = most
        self._client = client
        self._do = do
        self._queue: deque[tuple[_Job[ResponseT], int, WorkT]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        #: tasks that will check the queue again
        self._working = 0
        self._is_scheduled = False

    def start(self, works: Sequence[WorkT]) -> Future[list[ResponseT]]:
        """Return a future that completes when all ``works`` are answered or one of them has failed."""
        job = _Job[ResponseT](len(works))
        self._queue.extend((job, number, work) for number, work in enumerate(works))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._client.soon(self._send)
        return job.done

    def close(self) -> None:
        """Cancel everything."""
        self._queue.clear()
        self._client.soon(self._cancel)

    # ── on the client's thread ───────────────────────────────────────────────────────────────────────────────

    def _send(self) -> None:
        self._is_scheduled = False
        for _ in range(min(len(self._queue), self.most - self._working)):
            self._working += 1
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while self._queue:
            job, number, work = self._queue.popleft()
            try:
                job.responses[number] = await self._do(work)
            except Exception as error:
                if not job.done.done():
                    job.done.set_exception(error)
            else:
                job.left -= 1
                if not job.left:
                    job.done.set_result(cast(list[ResponseT], job.responses))
        self._working -= 1

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
