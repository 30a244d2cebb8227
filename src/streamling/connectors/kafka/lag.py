"""Reports periodically how far a source is behind its topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Set
from logging import Logger

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.offsets import Offsets
from streamling.errors import StreamlingError
from streamling.plugins.context import Metrics

METRIC = "kafka_consumer_messages_lag"
_FIRST_SECONDS = 2.0


class LagReporter:
    """A thread that compares the end of each partition with its stored offset. It also detects a topic that was deleted
    and recreated: a running query may not notice, and would continue at the same offsets."""

    def __init__(
        self,
        admin: KafkaAdmin,
        offsets: Offsets,
        metrics: Metrics,
        interval: float,
        log: Logger,
        on_recreated: Callable[[], object],
    ) -> None:
        self._admin = admin
        self._offsets = offsets
        self._topic = offsets.topic
        self._on_recreated = on_recreated
        self._metrics = metrics
        self._interval = interval
        self._log = log
        #: stored offsets of the partitions assigned to this instance
        self._stored: Mapping[int, int] = {}
        #: partitions of the last report
        self._reported: Set[int] = frozenset()
        #: end of each partition, as of the last report
        self._ends: Mapping[int, int] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lag of {offsets.topic}", daemon=True)

    def track(self, offsets: Mapping[int, int]) -> None:
        """Report on exactly these partitions, which are read from ``offsets`` on."""
        self._stored = dict(offsets)
        if self._thread.ident is None:
            self._thread.start()

    def record_stored(self, offsets: Mapping[int, int]) -> None:
        """Record that everything before ``offsets`` is stored."""
        self._stored = {partition: offsets.get(partition, offset) for partition, offset in self._stored.items()}

    @property
    def total_lag(self) -> int | None:
        """Number of messages that existed at the last report and are not stored yet; None before the first report."""
        stored, ends = self._stored, self._ends
        return (
            None if ends is None else sum(max(0, end - stored.get(partition, end)) for partition, end in ends.items())
        )

    def stop(self) -> None:
        self._stopped.set()

    def report(self) -> None:
        """Measure the lag of every partition once."""
        stored = self._stored
        ends = self._offsets.latest(self._admin, sorted(stored))
        lags = {partition: max(0, end - stored[partition]) for partition, end in ends.items()}
        for partition, lag in lags.items():
            self._metrics.gauge(METRIC, lag, {"partition": str(partition)})
        for partition in self._reported - lags.keys():  # another instance reports them now
            self._metrics.remove(METRIC, {"partition": str(partition)})
        self._reported = lags.keys()
        self._ends = ends

    def _run(self) -> None:
        """The first report comes early, for users who watch the start."""
        wait = min(self._interval, _FIRST_SECONDS)
        while not self._stopped.wait(wait):
            try:
                if self._offsets.is_recreated(self._admin):
                    self._on_recreated()
                else:
                    self.report()
                    self._log_lag(is_first=wait != self._interval)
            except StreamlingError as error:
                self._log.debug("cannot determine the lag: %s", error)
            wait = self._interval

    def _log_lag(self, is_first: bool) -> None:
        """Log the lag, so that the log shows whether the source keeps up."""
        if self.total_lag and not is_first:
            self._log.info("%s messages of topic '%s' are not stored yet", f"{self.total_lag:,}", self._topic)
