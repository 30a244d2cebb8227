"""Metrics of the Kafka source."""

from __future__ import annotations

from typing import Final

from streamling.observe.telemetry.catalogue import Metric

METRICS: Final = {
    "kafka_consumer.row_kind_count": Metric("counter", "Rows that were read, by their kind: i, u or d.", ("kind",)),
    "kafka_producer.msg_encode_latency": Metric(
        "histogram", "Time to encode the messages of a batch and to write them; not recorded by default."
    ),
    "kafka_consumer_messages_lag": Metric("gauge", "Messages of a partition that are not stored yet.", ("partition",)),
}
