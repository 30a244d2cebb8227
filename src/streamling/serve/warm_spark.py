"""The one Spark session of the server, with a scheduler pool for each pipeline. A JVM that has died is replaced."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamling.config import AppConfig
from streamling.errors import StreamlingError
from streamling.jvm.command import DEFAULT_HEAP_MB
from streamling.jvm.jars import fetched_spark_packages, known_spark_packages
from streamling.jvm.session import SparkRuntime
from streamling.runtime.memory import total_memory_mb
from streamling.spark.own_classes import find_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

POOL = "spark.scheduler.pool"
#: the name of the pool that contains those of all pipelines; not a valid name of a pipeline
_POOLS = "pipelines"


def start_spark(config: AppConfig, *, debug: bool) -> SparkRuntime:
    """A JVM with every Spark connector: pipelines that come later may need any of them."""

    def start(packages: frozenset[str]) -> SparkRuntime:
        return SparkRuntime.start(
            master=config.spark.master,
            conf={**_defaults(), **config.spark.conf},
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
        if "kafka" not in fetched:  # our pools are part of it
            log.warning("without the connector kafka, pipelines share the cores equally, whatever their size")
        return start(fetched)


def _defaults() -> dict[str, str]:
    """Spark settings of a server. A quarter of the memory is the heap, as for any other Java program: a heap that 500
    pipelines fill is collected as a whole again and again, which stops all of them for most of a second."""
    heap = max(DEFAULT_HEAP_MB, (total_memory_mb() or 0) // 4)
    # tasks of all pipelines run side by side; the default would finish one job before the next
    return {"spark.driver.memory": f"{heap}m", "spark.scheduler.mode": "FAIR"}


class WarmSpark:
    """A session that outlives its JVM."""

    def __init__(self, start: Callable[[], SparkRuntime]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._pools_lock = threading.Lock()
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
        pool_class = find_class(session, "PipelinePool")
        with self._pools_lock:
            self._remove_pool(session, name)
            if pool_class is not None:
                self._pools(session).addSchedulable(pool_class(name, weight))
            # without our classes, Spark makes equal pools: see `start_spark`

    def remove_pool(self, session: SparkSession, name: str) -> None:
        """Remove a pool if it exists."""
        with self._pools_lock:
            self._remove_pool(session, name)

    def _remove_pool(self, session: SparkSession, name: str) -> None:
        root = _root_pool(session)
        if (pool := root.getSchedulableByName(name)) is not None:
            pool.parent().removeSchedulable(pool)

    @staticmethod
    def _pools(session: SparkSession) -> Any:
        """The parent of the pools of all pipelines. Spark finds a pool by its name, wherever it is."""
        jvm: Any = session._jvm
        root = _root_pool(session)
        if (pools := root.getSchedulableByName(_POOLS)) is None:
            pools = jvm.streamling.PipelinePools(_POOLS)
            root.addSchedulable(pools)
        return pools

    def stop(self) -> None:
        """Stop the JVM."""
        with self._lock:
            if self._runtime is not None:
                self._runtime.stop()

    def kill(self) -> None:
        """Kill the JVM without waiting."""
        if self._runtime is not None:
            self._runtime.kill()


def _root_pool(session: SparkSession) -> Any:
    context: Any = session.sparkContext._jsc
    return context.sc().taskScheduler().rootPool()
