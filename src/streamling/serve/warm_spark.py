"""The one Spark session of the server, with a scheduler pool for each pipeline. A JVM that has died is replaced."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamling.config import AppConfig
from streamling.errors import StreamlingError
from streamling.jvm.jars import fetched_spark_packages, known_spark_packages
from streamling.jvm.session import SparkRuntime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

POOL = "spark.scheduler.pool"


def start_spark(config: AppConfig, *, debug: bool) -> SparkRuntime:
    """A JVM with every Spark connector: pipelines that come later may need any of them."""

    def start(packages: frozenset[str]) -> SparkRuntime:
        return SparkRuntime.start(
            master=config.spark.master,
            # tasks of all pipelines run side by side; the default would finish one job before the next
            conf={"spark.scheduler.mode": "FAIR", **config.spark.conf},
            variables=config.spark.environment,
            cache_dir=config.cache_dir,
            spark_packages=packages,
            debug=debug,
        )

    try:
        return start(frozenset(known_spark_packages()))
    except StreamlingError as error:
        fetched = fetched_spark_packages(config.cache_dir)
        log.warning("starting with the Spark connectors in the cache (%s) only: %s", ", ".join(sorted(fetched)), error)
        return start(fetched)


class WarmSpark:
    """A session that outlives its JVM."""

    def __init__(self, start: Callable[[], SparkRuntime]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._runtime: SparkRuntime | None = start()

    def session(self) -> SparkSession:
        """The session; waits for it, and starts another JVM if the last one has died."""
        with self._lock:
            if self._runtime is None or not self._runtime.alive():
                if self._runtime is not None:
                    log.error("Spark has stopped and is started again; all pipelines restart")
                    self._runtime.stop()
                self._runtime = None  # another start follows if this one fails
                self._runtime = self._start()
            return self._runtime.session()

    def is_up(self) -> bool:
        """Whether the session is ready."""
        runtime = self._runtime
        return runtime is not None and runtime.alive() and runtime.is_ready()

    def failure(self) -> StreamlingError | None:
        """Why the JVM has died; None while it runs."""
        runtime = self._runtime
        return None if runtime is None else runtime.failure()

    def add_pool(self, session: SparkSession, name: str, weight: int) -> None:
        """A pool with this weight, instead of one with the same name."""
        jvm: Any = session._jvm
        root = self._pools(session)
        self.remove_pool(session, name)
        scheduler = jvm.org.apache.spark.scheduler
        root.addSchedulable(scheduler.Pool(name, scheduler.SchedulingMode.FIFO(), 0, weight))

    def remove_pool(self, session: SparkSession, name: str) -> None:
        """Remove a pool if it exists."""
        root = self._pools(session)
        if (pool := root.getSchedulableByName(name)) is not None:
            root.removeSchedulable(pool)

    @staticmethod
    def _pools(session: SparkSession) -> Any:
        # with a configuration file Spark knows pools only from there; this is what it does itself at the first job
        context: Any = session.sparkContext._jsc
        return context.sc().taskScheduler().rootPool()

    def stop(self) -> None:
        """Stop the JVM."""
        with self._lock:
            if self._runtime is not None:
                self._runtime.stop()

    def kill(self) -> None:
        """Kill the JVM without waiting."""
        if self._runtime is not None:
            self._runtime.kill()
