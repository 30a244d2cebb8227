"""`streamling serve` as a process that tests stop, kill and start again, and a client for its API."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.harness.commands import QUICK_JVM
from tests.harness.pipelines import eventually

#: tests poll
_UNLIMITED = {"STREAMLING__SERVE__REQUESTS_PER_MINUTE": "100000"}
_LISTENING = re.compile(r"listening on (http://\S+)")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["error"]
        return found


class Client:
    """Requests to a server, one connection each."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address
        self._token = token

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        prefix: str = "/api/v1",
    ) -> Answer:
        sent = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=60)
        try:
            text = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, prefix + path, text, {**sent, **(headers or {})})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            connection.close()

    @contextmanager
    def stream(self, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        """The response to a request whose answer may not end; with ``body`` a POST."""
        sent = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        with closing(http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=120)) as connection:
            if body is None:
                connection.request("GET", f"/api/v1{path}", headers=sent)
            else:
                sent["Content-Type"] = "application/json"
                connection.request("POST", f"/api/v1{path}", json.dumps(body).encode(), sent)
            with connection.getresponse() as response:
                yield response

    def get(self, path: str, **options: Any) -> Answer:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.request("POST", path, body, **options)

    def create(self, name: str, definition: str, **fields: Any) -> Answer:
        return self.post("/pipelines", {"name": name, "definition": definition, **fields})

    def pipeline(self, name: str) -> dict[str, Any]:
        answer = self.get(f"/pipelines/default/{name}")
        assert answer.status in (200, 404), answer.text
        found: dict[str, Any] = answer.json
        return found

    def state(self, name: str) -> str:
        return str(self.pipeline(name).get("state", "absent"))


def sent_events(response: http.client.HTTPResponse, most: int | None = None) -> list[tuple[str, Any]]:
    """The events with data in a response: all, or the first ones."""
    found, name = [], "message"
    for line in response:
        if line.startswith(b"event: "):
            name = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            found.append((name, json.loads(line[6:])))
            name = "message"
        if len(found) == most:
            break
    return found


class ServeProcess:
    """The command in a folder of its own; killed at the end of a ``with`` block."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None, *options: str) -> None:
        self.folder = folder
        self._env = {**os.environ, **QUICK_JVM, **_UNLIMITED, **(env or {})}
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def __enter__(self) -> ServeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> Client:
        """Start the server and wait until it answers."""
        written = len(self.log())
        command = [sys.executable, "-m", "streamling", "serve", "--listen", "127.0.0.1:0", *self._options]
        with (self.folder / "log.txt").open("ab") as log, (self.folder / "out.txt").open("ab") as out:
            self._process = subprocess.Popen(command, cwd=self.folder, env=self._env, stdout=out, stderr=log)
        self.address = self.eventually(lambda: _LISTENING.search(self.log()[written:]))[1]
        return Client(self.address)

    def log(self) -> str:
        path = self.folder / "log.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def rows(self) -> list[Any]:
        """What print sinks have written."""
        return [json.loads(line) for line in (self.folder / "out.txt").read_text().splitlines()]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def eventually(self, condition: Callable[[], Any], seconds: float = 90) -> Any:
        """Wait for what the running server does, and return the condition's value."""
        assert self._process is not None
        return eventually(condition, seconds, lambda: self.log()[-3000:], self._process)

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def kill(self) -> None:
        """With -9, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
