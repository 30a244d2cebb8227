"""`streamling serve` as a measured process: creates pipelines, and notes when rows of print sinks arrive."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.children import STREAMLING, RunningProcess, running
from streamling.errors import StreamlingError

_WAIT_SECONDS = 600.0


@dataclass(frozen=True)
class Arrival:
    """A printed row, and when it was read."""

    at: float
    row: Mapping[str, Any]


class Served:
    """A running server."""

    def __init__(self, process: RunningProcess, port: int) -> None:
        self._process = process
        self._url = f"http://127.0.0.1:{port}"
        #: all rows printed so far
        self.arrivals: list[Arrival] = []
        threading.Thread(target=self._read, name="rows", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def create(self, name: str, definition: str, size: str = "m") -> None:
        """Create a pipeline; returns when the server has stored it."""
        self._request("POST", "/api/v1/pipelines", {"name": name, "definition": definition, "size": size})

    def delete(self, name: str) -> None:
        self._request("DELETE", f"/api/v1/pipelines/default/{name}")

    def pipeline(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._request("GET", f"/api/v1/pipelines/default/{name}")
        return found

    def wait_until_started(self) -> None:
        """Wait for the Spark session."""
        self.wait(lambda: self._status("/readyz") == 200)

    def wait_until_ready(self) -> None:
        """Wait until every pipeline is ready."""
        self.wait(lambda: all(item["ready"] for item in self._all()))

    def wait(self, condition: Any) -> None:
        """Wait for ``condition``; raises if the server has ended or it takes too long."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while not condition():
            self._process.check()
            if time.monotonic() > deadline:
                raise StreamlingError(f"the server was not ready within {_WAIT_SECONDS:g} s")
            time.sleep(0.02)

    def _all(self) -> Iterator[Mapping[str, Any]]:
        cursor = ""
        while True:
            page = self._request("GET", f"/api/v1/pipelines?limit=1000{cursor}")
            yield from page["items"]
            if page["next"] is None:
                return
            cursor = f"&cursor={page['next']}"

    def _status(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self._url + path, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"} if data else {}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise StreamlingError(f"{method} {path} was answered with {error.code}: {error.read().decode()}") from None

    def _read(self) -> None:
        while True:
            try:
                line = self._process.line()
            except StreamlingError:
                return
            self.arrivals.append(Arrival(time.time(), json.loads(line)))


@contextmanager
def served(cwd: Path, env: Mapping[str, str]) -> Iterator[Served]:
    """A server that runs until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    env = {**env, "STREAMLING__SERVE__REQUESTS_PER_MINUTE": "1000000"}
    command = [*STREAMLING, "serve", "--listen", f"127.0.0.1:{port}"]
    with running(command, cwd=cwd, env=env) as process:
        server = Served(process, port)
        server.wait_until_started()
        yield server
