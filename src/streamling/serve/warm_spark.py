"""The one Spark session of the server, with a scheduler pool for each pipeline. A JVM that has died is replaced."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from streamling.engine.launch.spark import start_spark
from streamling.engine.run.memory import total_memory_mb
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.serve.runtime import JvmDeath
from streamling.spark.java import java_class
from streamling.spark.jvm.command import DEFAULT_HEAP_MB
from streamling.spark.jvm.jars import fetched_spark_packages, known_spark_packages
from streamling.spark.jvm.session import SparkDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def start_shared_spark(config: AppConfig, *, debug: bool) -> SparkDriver:
    """Return a JVM with every Spark connector: pipelines that come later may need any of them."""

    start = partial(start_spark, config, conf={**_defaults(), **config.spark.conf}, debug=debug)
    try:
        return start(frozenset(known_spark_packages()))
    except StreamlingError as error:
        fetched = fetched_spark_packages(config.cache_dir)
        log.warning("starting with the Spark connectors in the cache (%s) only: %s", ", ".join(sorted(fetched)), error)
        return start(fetched)


def _defaults() -> dict[str, str]:
    """Return the Spark settings of a server. A quarter of the memory is the heap, as for any other Java program: a heap
    that 500 pipelines fill is often collected as a whole, which stops all of them for most of a second."""
    heap = max(DEFAULT_HEAP_MB, (total_memory_mb() or 0) // 4)
    # tasks of all pipelines run side by side; the default would finish one job before the next
    return {"spark.driver.memory": f"{heap}m", "spark.scheduler.mode": "FAIR"}


class JvmUser(Protocol):
    """A pipeline on a JVM that others use, too."""

    @property
    def is_evaluating(self) -> bool:
        """Whether Spark evaluates something for it, or did when it failed."""

    @property
    def is_proven(self) -> bool:
        """Whether this JVM has run its queries before."""

    def on_jvm_death(self) -> None:
        """React to the end of the JVM; must not block."""


@dataclass(frozen=True)
class Death:
    """Why a JVM has ended, and for whom it was evaluating something."""

    message: str
    remedy: str | None
    evaluating: frozenset[JvmUser]
    unproven: frozenset[JvmUser]

    def error(self) -> StreamlingError:
        """Return a new error for each pipeline: errors get context on their way up."""
        return StreamlingError(self.message, retriable=True, remedy=self.remedy)

    def seen_by(self, user: JvmUser) -> JvmDeath:
        return JvmDeath(user in self.evaluating, not self.evaluating & self.unproven - {user})


class SharedJvm:
    """One JVM and the pipelines that use it."""

    def __init__(self, driver: SparkDriver) -> None:
        self.driver = driver
        self._users: set[JvmUser] = set()
        self._lock = threading.Lock()
        self._death: Death | None = None

    def join(self, user: JvmUser) -> None:
        """Notify ``user`` when the JVM ends."""
        with self._lock:
            self._users.add(user)

    def leave(self, user: JvmUser) -> None:
        with self._lock:
            self._users.discard(user)

    def death(self) -> Death | None:
        """Return how it has ended; None while it runs, and if it was stopped."""
        if self._death is None and (error := self.driver.failure()) is not None:
            with self._lock:
                if self._death is None:
                    evaluating = frozenset(user for user in self._users if user.is_evaluating)
                    unproven = frozenset(user for user in evaluating if not user.is_proven)
                    self._death = Death(error.with_causes, error.remedy, evaluating, unproven)
        return self._death

    def watch(self) -> bool:
        """Wait for the end of the JVM and notify its users. Return whether it was not stopped by us."""
        self.driver.wait()
        if self.death() is None:
            return False
        with self._lock:
            users = list(self._users)
        for user in users:
            user.on_jvm_death()
        return True


class WarmSpark:
    """A session that outlives its JVM."""

    def __init__(self, start: Callable[[], SparkDriver], *, stays_up: bool = True) -> None:
        """With ``stays_up``, a JVM that has died is replaced at once, otherwise when it is needed."""
        self._start = start
        self._stays_up = stays_up
        self._lock = threading.Lock()
        self._jvm: SharedJvm | None = self._started()

    def jvm(self) -> SharedJvm:
        """Return the JVM; another one is started if the last one has died."""
        with self._lock:
            if self._jvm is None or not self._jvm.driver.alive():
                if self._jvm is not None:
                    log.error("Spark has stopped and is started again; all pipelines restart")
                    self._jvm.death()  # not known any more once it is stopped
                    self._jvm.driver.stop()
                self._jvm = None  # another start follows if this one fails
                self._jvm = self._started()
            return self._jvm

    def session(self) -> SparkSession:
        """Return the session; waits for it."""
        return self.jvm().driver.session()

    def _started(self) -> SharedJvm:
        jvm = SharedJvm(self._start())
        threading.Thread(target=self._watch, args=(jvm,), name="watch Spark", daemon=True).start()
        return jvm

    def _watch(self, jvm: SharedJvm) -> None:
        was_ready = jvm.watch() and jvm.driver.is_ready()
        if was_ready and self._stays_up:  # a JVM that cannot start would be replaced for ever
            with suppress(StreamlingError):
                self.session()

    def is_up(self) -> bool:
        """Return whether the session is ready."""
        jvm = self._jvm
        return jvm is not None and jvm.driver.alive() and jvm.driver.is_ready()

    @staticmethod
    def add_pool(session: SparkSession, name: str, weight: int) -> None:
        """Add a pool with this weight, instead of one with the same name."""
        _pools(session).add(session.sparkContext._jsc.sc(), name, weight)

    @staticmethod
    def remove_pool(session: SparkSession, name: str) -> None:
        """Remove a pool if it exists."""
        _pools(session).remove(session.sparkContext._jsc.sc(), name)

    def stop(self) -> None:
        """Stop the JVM."""
        self._stays_up = False
        with self._lock:
            if self._jvm is not None:
                self._jvm.driver.stop()

    def kill(self) -> None:
        """Kill the JVM without waiting."""
        self._stays_up = False
        if (jvm := self._jvm) is not None:
            jvm.driver.kill()


def _pools(session: SparkSession) -> Any:
    return java_class(session._jvm, "streamling.serve.PipelinePools")
