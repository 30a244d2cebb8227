"""A local ClickHouse: the engine of the wheel `chdb` behind an HTTP server of its own."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from streamling.dev.services.service import HOST, LocalService

USER: Final = "default"
#: web pages can send requests to any port of this machine, but they do not know the password
PASSWORD: Final = "streamling"
DATABASE: Final = "default"


class LocalClickHouse(LocalService):
    """A server with one user, for development and tests only; `clickhouse_server` says what it supports."""

    name = "clickhouse"
    title = "ClickHouse"
    modules = ("psutil", "chdb")

    def __init__(self, folder: Path, *, port: int = 0, user: str = USER, password: str = PASSWORD) -> None:
        super().__init__(folder, {"main": port})
        self.user = user
        self.password = password
        self.database = DATABASE

    @property
    def url(self) -> str:
        """The address for clients, without user and password."""
        return f"http://{HOST}:{self.port}"

    @property
    def address(self) -> str:
        return self.url

    def variables(self) -> dict[str, str]:
        server = {"URL": self.url, "USER": self.user, "PASSWORD": self.password, "DATABASE": self.database}
        return {
            f"STREAMLING__CLICKHOUSE_{side}__{name}": value
            for side in ("SOURCE", "SINK")
            for name, value in server.items()
        }

    def _prepare(self) -> None:
        """Do nothing: the engine creates its folder."""

    def _command(self) -> list[str]:
        data = str(self.folder / "data")
        return [
            sys.executable,
            "-m",
            "streamling.dev.services.clickhouse_server",
            "--port",
            str(self.port),
            "--folder",
            data,
        ]

    def _process_options(self) -> dict[str, Any]:
        credentials = {"CLICKHOUSE_USER": self.user, "CLICKHOUSE_PASSWORD": self.password}
        return {"cwd": self.folder, "env": {**os.environ, **credentials}}

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ping", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
