"""A blocking client on the standard library, for infrequent requests: the schema registry, metric receivers, the
commands for a server.

A response is limited in total time and size, and redirects to another origin are not followed. A streamed response has
no end; only the wait for its beginning is limited.
"""

from __future__ import annotations

import io
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import IO, Any, Final

from streamling.errors import StreamlingError
from streamling.network.http.errors import ResponseTooLargeError
from streamling.network.http.request import InvalidUrlError, origin_of
from streamling.network.policy import ANY_ADDRESS, NetworkPolicy

#: maximum number of bytes read from an error response
_MAX_ERROR_BYTES: Final = 65536
#: maximum size of a response in addition to its body: headers, chunk lengths, trailers
_MAX_OVERHEAD_BYTES: Final = 65536


@dataclass(frozen=True)
class HttpResponse:
    """A response with any status."""

    status: int
    reason: str
    content_type: str
    body: bytes


def send_request(
    url: str,
    *,
    headers: Mapping[str, str],
    data: bytes | None = None,
    method: str | None = None,
    seconds: float,
    max_bytes: int,
    redirects: bool = False,
    network: NetworkPolicy = ANY_ADDRESS,
) -> HttpResponse:
    """Send a request: by default a GET, or a POST if there is ``data``. Raises OSError and HTTPException as `urllib`
    does, TimeoutError after ``seconds`` in total, `ResponseTooLargeError`, and a `StreamlingError` for a redirect to
    another origin. If ``redirects`` is true, redirects of a GET within the same origin are followed. A ``network`` that
    denies addresses also denies proxies of the environment, which would resolve the name again."""
    request = urllib.request.Request(url, data, dict(headers), method=method)
    with _deadline(seconds, network) as sockets:
        sockets.max_bytes = max_bytes + _MAX_OVERHEAD_BYTES
        handlers = [_Http(sockets), _Https(sockets), _Redirects(sockets, follow=redirects)]
        opener = urllib.request.build_opener(*handlers, *([urllib.request.ProxyHandler({})] * network.deny_private))
        try:
            with opener.open(request, timeout=seconds) as response:
                body = response.read(max_bytes + 1)
                if len(body) > max_bytes:
                    raise ResponseTooLargeError
                return HttpResponse(response.status, response.reason, response.headers.get_content_type(), body)
        except urllib.error.HTTPError as error:
            try:
                body = error.read(min(max_bytes, _MAX_ERROR_BYTES))
            except ValueError:  # closed, after circular redirects
                body = b""
            finally:
                error.close()
            return HttpResponse(error.code, str(error.reason), error.headers.get_content_type(), body)


@dataclass(frozen=True)
class StreamedResponse:
    """A response whose body is read as it arrives."""

    status: int
    reason: str
    content_type: str
    body: IO[bytes]


@contextmanager
def open_stream(
    url: str, *, headers: Mapping[str, str], seconds: float, silence: float | None = None
) -> Iterator[StreamedResponse]:
    """Send a GET and return as soon as the body begins, after ``seconds`` at most. Reading fails if nothing arrives for
    ``silence`` seconds. Raises OSError and HTTPException."""
    parts = urllib.parse.urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    try:
        connection.connect()
        connected = connection.sock
        connection.request("GET", urllib.parse.urlunsplit(("", "", parts.path, parts.query, "")), headers=dict(headers))
        response = connection.getresponse()
        connected.settimeout(silence)  # without a limit, the next line may take hours
        yield StreamedResponse(response.status, response.reason, response.headers.get_content_type(), response)
    finally:
        connection.close()


def reason_of(error: OSError | HTTPException) -> str:
    """Return why there was no response, as the end of a sentence."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, socket.gaierror):
        return f"the host name cannot be resolved ({cause.strerror})"
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


# ── redirects ────────────────────────────────────────────────────────────────────────────────────────────────


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Headers and credentials are only sent to the configured origin."""

    max_redirections = 5

    def __init__(self, sockets: _Sockets, *, follow: bool) -> None:
        self._sockets = sockets
        self._follow = follow

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not self._follow or req.data is not None:
            return None
        try:
            old, new = origin_of(req.full_url), origin_of(newurl)
        except InvalidUrlError:
            return None
        fp.close()  # otherwise its body would be read to the end
        self._sockets.close()
        if old != new:
            raise StreamlingError.user(
                f"the request to {old} is redirected to {new}, which is not followed",
                remedy="set the URL that should be called",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Sockets:
    """The connections of one request, as duplicates: a socket is not accessible during a TLS handshake. Socket
    timeouts restart with every byte; this deadline does not."""

    def __init__(self, network: NetworkPolicy) -> None:
        self._network = network
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.expired = False
        #: maximum size of a whole response: Python reads trailers without a limit
        self.max_bytes = _MAX_OVERHEAD_BYTES

    def connect(self, *arguments: Any, **options: Any) -> socket.socket:
        connected = self._network.create_connection(*arguments, **options)
        with self._lock:
            self._open.append(connected.dup())
        if self.expired:
            self.expire()
        return connected

    def expire(self) -> None:
        self.expired = True
        with self._lock:
            for connected in self._open:
                with suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            for connected in self._open:
                connected.close()
            self._open.clear()


@contextmanager
def _deadline(seconds: float, network: NetworkPolicy) -> Iterator[_Sockets]:
    sockets, end = _Sockets(network), time.monotonic() + seconds
    timer = threading.Timer(seconds, sockets.expire)
    timer.daemon = True
    timer.start()
    try:
        yield sockets
        if sockets.expired:  # what was read may look complete
            raise TimeoutError
    except (OSError, HTTPException):
        if sockets.expired or time.monotonic() >= end:
            raise TimeoutError(f"no response within {seconds:g} s") from None
        raise
    finally:
        timer.cancel()
        sockets.close()


class _Http(urllib.request.HTTPHandler):
    def __init__(self, sockets: _Sockets) -> None:
        super().__init__()
        self._sockets = sockets

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_connection_class(HTTPConnection, self._sockets), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, sockets: _Sockets) -> None:
        super().__init__()
        self._sockets = sockets

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_connection_class(HTTPSConnection, self._sockets), req)


def _connection_class(kind: type[HTTPConnection], sockets: _Sockets) -> Any:
    """Return a connection class whose sockets are registered as soon as they connect."""

    class WatchedConnection(kind):  # type: ignore[valid-type, misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._create_connection = sockets.connect

        def response_class(self, connected: socket.socket, **options: Any) -> HTTPResponse:
            return HTTPResponse(_Bounded(connected, sockets.max_bytes), **options)  # type: ignore[arg-type]

    return WatchedConnection


class _Bounded:
    """A socket from which a response reads a limited number of bytes."""

    def __init__(self, connected: socket.socket, max_bytes: int) -> None:
        self._socket = connected
        self._max_bytes = max_bytes

    def makefile(self, mode: str) -> io.BufferedReader:
        assert mode == "rb"
        return io.BufferedReader(_BoundedBytes(self._socket.makefile("rb", buffering=0), self._max_bytes))


class _BoundedBytes(io.RawIOBase):
    def __init__(self, stream: Any, most: int) -> None:
        self._stream = stream
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self._stream.readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            raise ResponseTooLargeError
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()
