from __future__ import annotations

import logging

import pytest

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.lag import METRIC, LagReporter
from streamling.connectors.kafka.lag_monitor import LagMonitor
from streamling.connectors.kafka.offsets import Offsets
from streamling.dev.services.topics import Message, create_topic, produce
from tests.connectors.kafka.source_driver import ORDERS, KafkaBench
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.services]


class _Gauges:
    def __init__(self) -> None:
        self.seen: list[tuple[str, float, dict[str, str]]] = []

    def gauge(self, name, value, tags=None):
        self.seen.append((name, value, dict(tags or {})))


def test_the_lag_counts_messages_that_are_not_stored_yet(spark, kafka, registry, caplog) -> None:
    caplog.set_level(logging.INFO)
    topic = KafkaBench(spark, kafka, registry).topic(partitions=2)
    topic.write(ORDERS, *({"id": n} for n in range(5)), partition=1)
    admin, gauges = KafkaAdmin(spark, {"bootstrap.servers": kafka.brokers}), _Gauges()
    offsets, log = (
        Offsets("rows", topic.name, committed=True, group="g", log=logging.getLogger("test")),
        logging.getLogger("test"),
    )
    monitor = LagMonitor(admin)
    reporter = LagReporter(monitor, offsets, gauges, 0.05, log, lambda: None)  # type: ignore[arg-type]
    assert reporter.total_lag is None
    reporter.track({0: 0, 1: 0})
    eventually(lambda: (METRIC, 5, {"partition": "1"}) in gauges.seen)
    assert reporter.total_lag == 5
    reporter.record_stored({1: 3})
    assert reporter.total_lag == 2
    eventually(lambda: (METRIC, 2, {"partition": "1"}) in gauges.seen)
    assert (METRIC, 0, {"partition": "0"}) in gauges.seen
    assert f"5 messages of topic '{topic.name}' are not stored yet" in caplog.text
    reporter.stop()
    monitor.close()
    admin.close()


class _CountingAdmin(KafkaAdmin):
    requests = 0

    def ends(self, *args, **options):
        self.requests += 1
        return super().ends(*args, **options)

    def ids(self, *args):
        self.requests += 1
        return super().ids(*args)


def test_one_request_answers_all_sources(spark, kafka) -> None:
    """A topic that does not exist does not affect the others."""
    log, name = logging.getLogger("test"), "lag-of-many"
    create_topic(kafka.brokers, name, partitions=2)
    produce(kafka.brokers, name, [Message(b"x", partition=1)] * 3)
    admin = _CountingAdmin(spark, {"bootstrap.servers": kafka.brokers})
    monitor = LagMonitor(admin)
    gauges = [_Gauges() for _ in range(30)]
    reporters = [
        LagReporter(
            monitor,
            Offsets("rows", "missing" if number == 7 else name, committed=True, group="g", log=log),
            each,  # type: ignore[arg-type]
            0.5,
            log,
            lambda: None,
        )
        for number, each in enumerate(gauges)
    ]
    for number, reporter in enumerate(reporters):
        reporter.track({0: 0, 1: number})
    eventually(lambda: all(len(each.seen) >= 10 for number, each in enumerate(gauges) if number != 7))
    assert [reporter.total_lag for reporter in reporters[:3]] == [3, 2, 1]
    assert reporters[7].total_lag is None
    reports = sum(len(each.seen) // 2 for each in gauges)
    assert admin.requests < reports / 5
    for reporter in reporters:
        reporter.stop()
    monitor.close()
    admin.close()
