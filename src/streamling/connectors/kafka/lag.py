"""Reports how far a source is behind its topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from logging import Logger

from streamling.connectors.kafka.lag_monitor import LagMonitor
from streamling.connectors.kafka.offsets import Offsets
from streamling.plugins.context import Metrics

METRIC = "kafka_consumer_messages_lag"


class LagReporter:
    """Compares the end of each partition with its stored offset, each time the monitor has asked the brokers. It also
    detects a topic that was deleted and recreated: a running stream may not notice, and would continue at the same
    offsets."""

    def __init__(
        self,
        monitor: LagMonitor,
        offsets: Offsets,
        metrics: Metrics,
        interval: float,
        log: Logger,
        on_recreated: Callable[[], object],
    ) -> None:
        self._monitor = monitor
        self._offsets = offsets
        self.topic = offsets.topic
        self.committed = offsets.committed
        #: seconds between two reports
        self.interval = interval
        self._on_recreated = on_recreated
        self._metrics = metrics
        self._log = log
        #: stored offsets of the partitions assigned to this instance
        self._stored: Mapping[int, int] = {}
        #: partitions of the last report
        self._reported: Set[int] = frozenset()
        #: end of each partition, as of the last report
        self._ends: Mapping[int, int] | None = None
        self._is_tracking = False

    def track(self, offsets: Mapping[int, int]) -> None:
        """Report on exactly these partitions, which are read from ``offsets`` on."""
        self._stored = dict(offsets)
        if not self._is_tracking:
            self._is_tracking = True
            self._monitor.add(self)

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
        self._monitor.remove(self)

    # ── called by the monitor ───────────────────────────────────────────────────────────────────────────────

    @property
    def partitions(self) -> list[int]:
        """The partitions whose ends are needed."""
        return sorted(self._stored)

    def report(self, ends: Mapping[int, int], topic_id: str | None, *, is_first: bool) -> None:
        """Measure the lag of every partition, of which these are the ``ends`` now."""
        if self._offsets.is_recreated(topic_id):
            self._on_recreated()
            return
        stored = self._stored
        ends = {partition: end for partition, end in ends.items() if partition in stored}
        if not ends and stored:
            return  # the brokers do not know the topic at the moment
        lags = {partition: max(0, end - stored[partition]) for partition, end in ends.items()}
        for partition, lag in lags.items():
            self._metrics.gauge(METRIC, lag, {"partition": str(partition)})
        for partition in self._reported - lags.keys():  # another instance reports them now
            self._metrics.remove(METRIC, {"partition": str(partition)})
        self._reported = lags.keys()
        self._ends = ends
        if self.total_lag and not is_first:  # so that the log shows whether the source keeps up
            self._log.info("%s messages of topic '%s' are not stored yet", f"{self.total_lag:,}", self.topic)
