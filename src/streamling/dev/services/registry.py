"""A local schema registry: Apicurio, which has the same API as Confluent's."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from streamling.dev.services.packages import Packages, default_packages
from streamling.dev.services.service import HOST, LocalService

_HEAP_MB = 256


class LocalRegistry(LocalService):
    """A registry open to everyone on this machine: for development and tests only."""

    name = "registry"
    title = "The schema registry"

    def __init__(self, folder: Path, *, port: int = 0, packages: Packages | None = None) -> None:
        super().__init__(folder, {"main": port})
        self._packages = packages or default_packages()

    @property
    def url(self) -> str:
        """The registry's address for Confluent clients."""
        return f"http://{HOST}:{self.port}/apis/ccompat/v7"

    @property
    def address(self) -> str:
        return self.url

    def variables(self) -> dict[str, str]:
        return {f"STREAMLING__KAFKA_{side}__SCHEMA_REGISTRY_URL": self.url for side in ("SOURCE", "SINK")}

    def _prepare(self) -> None:
        """Do nothing: the database is created on the first start."""

    def _command(self) -> list[str]:
        [program] = self._packages.folder("registry").glob("*-runner.jar")
        properties = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self.port),
            "quarkus.banner.enabled": "false",
            "quarkus.log.level": "WARN",
            "quarkus.http.access-log.enabled": "false",
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            # without delay: by default a kill loses what was registered in the last half second
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder / 'data' / 'registry'};WRITE_DELAY=0",
            "apicurio.datasource.jdbc.initial-size": "1",
            "apicurio.datasource.jdbc.min-size": "1",
            "apicurio.datasource.jdbc.max-size": "10",
        }
        line = self._packages.java_command(heap_mb=_HEAP_MB, quick=True)
        return [*line, *(f"-D{name}={value}" for name, value in properties.items()), "-jar", str(program)]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
