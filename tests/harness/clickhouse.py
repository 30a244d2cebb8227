"""Requests to a ClickHouse server by hand, and faults of the local one."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from streamling.dev.services.clickhouse import LocalClickHouse
from tests.harness.services import ClickHouse


@dataclass(frozen=True)
class Answer:
    """The response to a request; ``complete`` says whether its body ended as announced."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool = True

    @property
    def code(self) -> int | None:
        """ClickHouse's error code."""
        text = self.headers.get("X-ClickHouse-Exception-Code")
        return int(text) if text else None

    @property
    def summary(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.headers["X-ClickHouse-Summary"])
        return found


def request(
    server: ClickHouse,
    body: bytes | str | Iterable[bytes] = b"",
    *,
    method: str = "POST",
    path: str = "/",
    headers: Mapping[str, str] | None = None,
    user: str | None = None,
    password: str | None = None,
    **parameters: str,
) -> Answer:
    """Send one request on a connection of its own; other keywords are parameters of the URL."""
    token = f"{server.user if user is None else user}:{server.password if password is None else password}"
    basic = {"Authorization": f"Basic {base64.b64encode(token.encode()).decode()}"}
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    try:
        connection.request(
            method,
            f"{path}?{urlencode(parameters)}" if parameters else path,
            body.encode() if isinstance(body, str) else body,
            basic if headers is None else dict(headers),
        )
        response = connection.getresponse()
        try:
            return Answer(response.status, response.headers, response.read())
        except http.client.IncompleteRead as error:
            return Answer(response.status, response.headers, error.partial, complete=False)
    finally:
        connection.close()


def query(server: ClickHouse, statement: str, **parameters: str) -> str:
    """Return the output of a statement; fails the test if the server reports an error."""
    answer = request(server, statement, **parameters)
    assert answer.status == 200, answer.body.decode()
    return answer.body.decode()


def inject_fault(server: LocalClickHouse, action: str, **options: Any) -> None:
    """Make the next requests fail; ``streamling.dev.services.clickhouse_server`` lists actions and options."""
    answer = request(server, json.dumps({"action": action, **options}), path="/_test/faults")
    assert answer.status == 200, answer.body.decode()


def pending_faults(server: LocalClickHouse) -> list[dict[str, Any]]:
    """Return the faults that have not been used up."""
    found: list[dict[str, Any]] = json.loads(request(server, method="GET", path="/_test/faults").body)
    return found


def clear_faults(server: LocalClickHouse) -> None:
    request(server, method="DELETE", path="/_test/faults")
