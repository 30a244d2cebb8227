"""The HTTP API of a server, and the translation of its errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from streamling.errors import InvalidPipeline, Problem, StreamlingError

if TYPE_CHECKING:
    from streamling.network.http.blocking import HttpResponse

_TIMEOUT_SECONDS = 30.0
_MAX_BYTES = 64 * 1024 * 1024


class ServerResponseError(StreamlingError):
    """A response of the server that is not a success."""

    def __init__(self, status: int, message: str, remedy: str | None) -> None:
        super().__init__(message, internal=False, remedy=remedy)
        self.status = status


@dataclass(frozen=True)
class ServerClient:
    """The HTTP API of one server."""

    url: str
    token: str | None = field(default=None, repr=False)

    def get(self, path: str, query: Mapping[str, str] | None = None, *, seconds: float = _TIMEOUT_SECONDS) -> Any:
        """Return the JSON value at ``path`` below `/api/v1`."""
        return self.send("GET", f"{path}?{urlencode(query)}" if query else path, seconds=seconds)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        file: str = "",
        seconds: float = _TIMEOUT_SECONDS,
    ) -> Any:
        """Send ``body`` as JSON and return the response. ``file`` is the file that problems of a definition are in."""
        from http.client import HTTPException

        from streamling.network.http.blocking import send_request
        from streamling.network.http.errors import ResponseTooLargeError

        data = None if body is None else json.dumps(body).encode()
        sent = {**self._headers(), **({} if data is None else {"Content-Type": "application/json"}), **(headers or {})}
        try:
            response = send_request(
                f"{self.url}/api/v1{path}",
                headers=sent, data=data, method=method, seconds=seconds, max_bytes=_MAX_BYTES,
            )  # fmt: skip
        except (OSError, HTTPException, ResponseTooLargeError) as error:
            raise self._unreachable(error) from None
        if response.status >= 300:
            raise self._error(response, file)
        return self._decoded(response)

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """Yield the lines of a response as they arrive."""
        from http.client import HTTPException

        from streamling.network.http.blocking import HttpResponse, open_stream

        url = f"{self.url}/api/v1{path}?{urlencode(query)}"
        try:
            with open_stream(url, headers=self._headers(), seconds=_TIMEOUT_SECONDS) as response:
                if response.status >= 300:
                    body = response.body.read(_MAX_BYTES)
                    raise self._error(
                        HttpResponse(response.status, response.reason, response.content_type, body), file=""
                    )
                while line := response.body.readline(_MAX_BYTES):
                    yield line.decode("utf-8", "replace").rstrip("\n")
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[Any]:
        """Yield the items of all pages of a list."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.get(path, {**query, **({"cursor": cursor} if cursor else {})})
            yield from page["items"]
            cursor = page.get("next")

    def _headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def _decoded(self, response: HttpResponse) -> Any:
        try:
            return json.loads(response.body) if response.body else None
        except ValueError:
            raise self._not_ours(response) from None

    def _error(self, response: HttpResponse, file: str) -> StreamlingError:
        try:
            body = json.loads(response.body)
            message, remedy = str(body["error"]["message"]), body["error"].get("remedy")
            problems = [_problem(each, file) for each in body.get("problems") or ()]
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._not_ours(response)
        if problems:
            return InvalidPipeline(problems)
        return ServerResponseError(response.status, message, remedy)

    def _not_ours(self, response: HttpResponse) -> StreamlingError:
        return ServerResponseError(
            response.status,
            f"{self.url} did not respond like a Streamling server: "
            f"{response.status} {response.reason} ({response.content_type})",
            "check the address in --server or STREAMLING_SERVER",
        )

    def _unreachable(self, error: Exception) -> StreamlingError:
        from http.client import HTTPException

        from streamling.network.http.blocking import reason_of

        reason = reason_of(error) if isinstance(error, OSError | HTTPException) else str(error)
        return StreamlingError.user(
            f"the server {self.url} cannot be reached: {reason}",
            remedy="start it with 'streamling serve', or name another one with --server or STREAMLING_SERVER",
        )


def pipeline_path(namespace: str, name: str) -> str:
    """Return the path of a pipeline in the API."""
    return f"/pipelines/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _problem(found: Mapping[str, Any], file: str) -> Problem:
    line, column = int(found.get("line") or 0), int(found.get("column") or 0)
    return Problem(str(found["message"]), file, line, column, found.get("remedy"))
