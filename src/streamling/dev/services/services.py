"""All local services of a project, under one folder."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from typing import Final

from streamling.dev.services.clickhouse import LocalClickHouse
from streamling.dev.services.envfile import write_env_file
from streamling.dev.services.extra import location
from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.packages import Packages
from streamling.dev.services.postgres import LocalPostgres
from streamling.dev.services.registry import LocalRegistry
from streamling.dev.services.service import LocalService
from streamling.errors import StreamlingError
from streamling.spark.jvm.ivy import ReportProgress

NAMES: Final = ("kafka", "registry", "postgres", "clickhouse")
#: programs for Java; the others come with Python packages
_DOWNLOADED: Final = ("kafka", "registry")


class LocalServices:
    """Kafka, schema registry, Postgres and ClickHouse with their files in ``folder``; any process can find the running
    ones."""

    def __init__(self, folder: Path, packages: Packages, *, ports: Mapping[str, int] | None = None) -> None:
        """``ports`` by name of the service; the others get free ports and keep them."""
        self.folder = folder.absolute()
        self._packages = packages
        port = {**dict.fromkeys(NAMES, 0), **(ports or {})}
        self.kafka = LocalKafka(self.folder / "kafka", port=port["kafka"], packages=packages)
        self.registry = LocalRegistry(self.folder / "registry", port=port["registry"], packages=packages)
        self.postgres = LocalPostgres(self.folder / "postgres", port=port["postgres"])
        self.clickhouse = LocalClickHouse(self.folder / "clickhouse", port=port["clickhouse"])

    @property
    def all(self) -> list[LocalService]:
        return [self.kafka, self.registry, self.postgres, self.clickhouse]

    @property
    def running(self) -> list[LocalService]:
        return [service for service in self.all if service.running]

    @property
    def env_file(self) -> Path:
        """The file with the variables of the running services."""
        return self.folder / "dev.env"

    def variables(self) -> dict[str, str]:
        """Return the environment variables that make Streamling use the running services."""
        return {name: value for service in self.running for name, value in service.variables().items()}

    def up(
        self, names: Iterable[str] = NAMES, *, progress: ReportProgress = lambda doing, done: None
    ) -> list[LocalService]:
        """Start those of ``names`` that are not running and return them when they respond. If one fails, all are
        stopped."""
        with self._locked():
            wanted = [service for service in self.all if service.name in names and not service.running]
            for module in {module for service in wanted for module in service.modules}:
                location(module)  # report missing packages before a long download
            for service in wanted:
                if service.name in _DOWNLOADED:
                    self._packages.folder(service.name, progress)
            if wanted:
                progress(f"starting {', '.join(service.name for service in wanted)}", 0.5)
                _in_parallel(wanted, methodcaller("start"), undo=methodcaller("kill"))
            write_env_file(self.env_file, self.variables())
        return wanted

    def down(self, names: Iterable[str] = NAMES, *, delete: bool = False) -> list[LocalService]:
        """Stop those of ``names`` that are running and return them. With ``delete``, also delete their data, running or
        not."""
        if not self.folder.is_dir():
            return []
        with self._locked():
            stopped = [service for service in self.running if service.name in names]
            chosen = [service for service in self.all if service.name in names] if delete else stopped
            if chosen:
                _in_parallel(chosen, methodcaller("delete" if delete else "stop"))
            if self.running:
                write_env_file(self.env_file, self.variables())
            else:
                self.env_file.unlink(missing_ok=True)  # using the file then fails with a clear error
        return stopped

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time enter: two that start the same service would fight for its files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StreamlingError(
                    f"another command is starting or stopping the services in {self.folder}",
                    retriable=True,
                    remedy="wait until it has finished",
                ) from None
            yield


def _in_parallel(
    services: list[LocalService],
    action: Callable[[LocalService], None],
    undo: Callable[[LocalService], None] = lambda service: None,
) -> None:
    """Apply ``action`` to all; if one fails or the user interrupts, apply ``undo`` to all."""
    try:
        with ThreadPoolExecutor(len(services), thread_name_prefix="dev") as pool:
            futures = [pool.submit(action, service) for service in services]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                _for_each(services, undo)  # ends the waiting for it
                raise
    except BaseException:
        _for_each(services, undo)  # and what one of them started while it was still preparing
        raise


def _for_each(services: list[LocalService], action: Callable[[LocalService], None]) -> None:
    for service in services:
        action(service)
