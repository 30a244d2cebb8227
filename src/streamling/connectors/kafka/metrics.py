"""Metrics of the Kafka source."""

from __future__ import annotations

from typing import Final

from streamling.telemetry.catalogue import Metric

METRICS: Final = {
    "kafka_consumer_messages_lag": Metric("gauge", "Messages of a partition that are not stored yet.", ("partition",)),
}
