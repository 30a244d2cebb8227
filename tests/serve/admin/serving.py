"""A run of the test session's Spark with a real admin API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from streamling.engine.run.observed import ObservedRun
from streamling.engine.run.run import PipelineRun
from streamling.observe.telemetry.log_book import LogBook
from streamling.pipeline.config import AppConfig
from streamling.serve.admin.application import create_application
from streamling.serve.admin.server import create_server, listen
from tests.serve.admin.server_thread import started


@dataclass
class Api:
    port: int

    @contextmanager
    def open(self, path: str, method: str = "GET") -> Iterator[HTTPResponse]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path)
            with connection.getresponse() as response:
                yield response

    def ask(self, path: str, method: str = "GET") -> tuple[int, Any]:
        with self.open(path, method) as response:
            text = response.read().decode()
        is_json = response.headers.get("content-type") == "application/json"
        return response.status, json.loads(text) if is_json else text

    def rows(self, query: str, count: int) -> list[dict[str, Any]]:
        """The first events of live data."""
        found: list[dict[str, Any]] = []
        with self.open(f"/admin/live-data?{query}") as response:
            assert response.status == 200
            for line in response:
                if line.startswith(b"data:"):
                    found.append(json.loads(line[5:]))
                if len(found) == count:
                    break
        return found


@contextmanager
def serving(run: PipelineRun, **settings: Any) -> Iterator[Api]:
    config = AppConfig(admin_api_port=0, application_id="shop", **settings)
    observed = ObservedRun(run, name="shop", application_id="shop", jvm_megabytes=lambda: None)
    server = create_server(create_application(observed, config, LogBook()))
    with listen(config) as listening, started(server, listening) as port:
        yield Api(port)
