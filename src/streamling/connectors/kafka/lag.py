"""How far a source is behind its topic, reported every so often."""

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
    """A thread that compares the end of each partition with the offset stored for it. It also notices a topic that was
    deleted and created again: a running query may not, and goes on at the same offsets."""

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
        #: the offsets to compare with, of the partitions that are ours
        self._stored: Mapping[int, int] = {}
        #: the partitions of the last report
        self._reported: Set[int] = frozenset()
        #: the end of each partition, as of the last report
        self._ends: Mapping[int, int] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lag of {offsets.topic}", daemon=True)

    def track(self, offsets: Mapping[int, int]) -> None:
        """Tell about these partitions, which are read from ``offsets`` on, and no others."""
        self._stored = dict(offsets)
        if self._thread.ident is None:
            self._thread.start()

    def stored(self, offsets: Mapping[int, int]) -> None:
        """Everything before ``offsets`` is done."""
        self._stored = {partition: offsets.get(partition, offset) for partition, offset in self._stored.items()}

    @property
    def total_lag(self) -> int | None:
        """Messages that were there at the last report and are not stored yet; None before the first one."""
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
        for partition in self._reported - lags.keys():  # another instance tells those now
            self._metrics.remove(METRIC, {"partition": str(partition)})
        self._reported = lags.keys()
        self._ends = ends

    def _run(self) -> None:
        """The first report comes early, for people who watch the start."""
        wait = min(self._interval, _FIRST_SECONDS)
        while not self._stopped.wait(wait):
            try:
                if self._offsets.is_recreated(self._admin):
                    self._on_recreated()
                else:
                    self.report()
                    self._log_lag(is_first=wait != self._interval)
            except StreamlingError as error:
                self._log.debug("the lag is not known: %s", error)
            wait = self._interval

    def _log_lag(self, is_first: bool) -> None:
        """Whoever looks at the log sees whether the source keeps up."""
        if self.total_lag and not is_first:
            self._log.info("%s messages of topic '%s' are not stored yet", f"{self.total_lag:,}", self._topic)
