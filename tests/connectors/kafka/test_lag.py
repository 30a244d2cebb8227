from __future__ import annotations

import logging

import pytest

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.lag import METRIC, LagReporter
from streamling.connectors.kafka.offsets import Offsets
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
    reporter = LagReporter(admin, offsets, gauges, 0.05, log, lambda: None)  # type: ignore[arg-type]
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
    admin.close()
