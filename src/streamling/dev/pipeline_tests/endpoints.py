"""Stubbed HTTP endpoints: one server on this machine answers the handlers and webhooks of all cases.

The nodes send real requests, so that payloads, splitting, retries and errors are those of a real run. The path says
which case and node a request is from.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from streamling.dev.pipeline_tests.model import HttpAnswer, Row
from streamling.redaction import excerpt
from streamling.types.from_json import parse_json

#: how many characters of a row an error quotes
_SHOWN = 200


class LocalEndpoint:
    """The endpoint of one node in one case. Thread-safe."""

    def __init__(self, answers: Sequence[HttpAnswer], *, answers_all: bool) -> None:
        """With ``answers_all``, rows without an answer are accepted: a webhook returns nothing."""
        self._answers = list(answers)
        self._left = [answer.times for answer in answers]
        self._answers_all = answers_all
        self._lock = threading.Lock()
        #: JSON bodies of all requests
        self.requests: list[Any] = []
        #: rows without an answer
        self.unanswered: list[Row] = []

    def handle(self, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the response."""
        value = parse_json(body)
        with self._lock:
            self.requests.append(value)
            found = [(sent, self._answer(_data(sent))) for sent in (value if isinstance(value, list) else [value])]
        if any(answer is None for _, answer in found):
            return 400, b"the test file has no answer for this row"
        chosen = [(sent, answer) for sent, answer in found if answer is not None]
        status = next((answer.status for _, answer in chosen if answer.status != 200), 200)
        rows = [row for sent, answer in chosen for row in _response(sent, answer)]
        return status, json.dumps(rows, default=str).encode() if status == 200 else b""

    def _answer(self, row: Row) -> HttpAnswer | None:
        for number, answer in enumerate(self._answers):
            if self._left[number] != 0 and contains(row, answer.row):
                self._left[number] = None if answer.times is None else (self._left[number] or 0) - 1
                return answer
        if self._answers_all:
            return HttpAnswer()
        self.unanswered.append(row)
        return None


def _data(sent: Any) -> Row:
    """Return the columns of a row in either payload version."""
    if isinstance(sent, dict) and sent.keys() == {"metadata", "data"}:
        return _data(sent["data"])
    return sent if isinstance(sent, dict) else {}


def _response(sent: Any, answer: HttpAnswer) -> list[Any]:
    if answer.echo:
        return [sent]
    if answer.response is None:
        return []
    rows = answer.response if isinstance(answer.response, list) else [answer.response]
    if isinstance(sent, dict) and sent.keys() == {"metadata", "data"}:
        return [{"metadata": sent["metadata"], "data": row} for row in rows]
    return rows


def contains(found: Any, expected: Any) -> bool:
    """Return whether ``found`` has everything that ``expected`` mentions; numbers may be written as text."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(k in found and contains(found[k], v) for k, v in expected.items())
    if isinstance(expected, list):
        same = isinstance(found, list) and len(found) == len(expected)
        return same and all(contains(one, other) for one, other in zip(found, expected, strict=True))
    if isinstance(expected, float):
        return not isinstance(found, bool | str | None) and float(found) == expected
    return bool(found == expected) and isinstance(found, bool) == isinstance(expected, bool)


def show(row: Any) -> str:
    return excerpt(json.dumps(row, default=str, ensure_ascii=False), _SHOWN)


class Endpoints:
    """The server."""

    def __init__(self) -> None:
        self._by_path: dict[str, LocalEndpoint] = {}
        handler = type("Handler", (_Handler,), {"by_path": self._by_path})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="endpoints", daemon=True)
        self._thread.start()
        self._count = 0

    def add(self, endpoint: LocalEndpoint) -> str:
        """Serve ``endpoint`` and return its URL."""
        self._count += 1
        path = f"/{self._count}"
        self._by_path[path] = endpoint
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    by_path: Mapping[str, LocalEndpoint]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, text = self.by_path[self.path].handle(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
