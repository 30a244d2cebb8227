"""Asks the brokers for the ends of the topics of all sources that have the same client settings."""

from __future__ import annotations

import contextvars
import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.errors import StreamlingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.connectors.kafka.lag import LagReporter
    from streamling.plugins.shared import SharedResources

log = logging.getLogger(__name__)

#: the first report comes early, for users who watch the start
_FIRST_SECONDS = 2.0


@dataclass
class _Watched:
    reporter: LagReporter
    due: float
    #: whether the next report is an early one, after the start
    is_first: bool
    #: that of the pipeline: its log lines name it
    context: contextvars.Context = field(default_factory=contextvars.copy_context)


class LagMonitor:
    """One thread that reports to all sources at the same moments, so that one request answers all of them. It waits
    without waking up when there are none. Thread-safe."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin
        self._changed = threading.Condition()
        self._watched: dict[LagReporter, _Watched] = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="kafka lag", daemon=True)
        self._thread.start()

    @classmethod
    def shared(
        cls, shared: SharedResources, admin: KafkaAdmin, spark: SparkSession, settings: Mapping[str, str]
    ) -> LagMonitor:
        """Return the monitor of all users of ``shared`` with equal settings, who release it before the admin."""
        return shared.acquire(cls, lambda: cls(admin), spark.sparkContext._gateway, frozenset(settings.items()))

    def add(self, reporter: LagReporter) -> None:
        first = time.monotonic() + min(reporter.interval, _FIRST_SECONDS)
        with self._changed:
            self._watched[reporter] = _Watched(reporter, first, reporter.interval > _FIRST_SECONDS)
            self._changed.notify()

    def remove(self, reporter: LagReporter) -> None:
        with self._changed:
            self._watched.pop(reporter, None)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while due := self._next():
            try:
                self._report(due)
            except StreamlingError as error:
                log.debug("cannot determine the lag: %s", error)
            except Exception as error:  # the JVM has ended: so will all pipelines
                log.debug("cannot determine the lag: %s", type(error).__name__)

    def _next(self) -> list[_Watched]:
        """Wait for the sources that are due; none at the end."""
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                if due := [watched for watched in self._watched.values() if watched.due <= now]:
                    for watched in due:
                        interval = watched.reporter.interval
                        watched.due = (math.floor(now / interval) + 1) * interval  # together with the others
                    return due
                self._changed.wait(min((each.due - now for each in self._watched.values()), default=None))
            return []

    def _report(self, due: list[_Watched]) -> None:
        ids = self._admin.ids({watched.reporter.topic for watched in due})
        ends = {committed: self._ends(due, committed) for committed in {each.reporter.committed for each in due}}
        for watched in due:
            reporter = watched.reporter
            if reporter in self._watched:
                found = ends[reporter.committed].get(reporter.topic, {})
                id = ids.get(reporter.topic)
                watched.context.run(reporter.report, found, id, is_first=watched.is_first)
                watched.is_first = False

    def _ends(self, due: Iterable[_Watched], committed: bool) -> Mapping[str, Mapping[int, int]]:
        """Return the ends of the partitions that are read up to the last committed message, or up to the last one."""
        needed = [each.reporter for each in due if each.reporter.committed is committed]
        requested = {(reporter.topic, number) for reporter in needed for number in reporter.partitions}
        found: dict[str, dict[int, int]] = {}
        if requested:
            for (topic, partition), end in self._admin.ends(requested, committed=committed).items():
                found.setdefault(topic, {})[partition] = end
        return found
