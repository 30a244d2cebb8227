"""What metrics are called outside, and what those of the runtime mean. Plugins record others under their own names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streamling.telemetry.metrics import Kind

PREFIX: Final = "streamling_"
MILLISECONDS: Final = "ms"

#: of these the difference since the last push is pushed as well, under the second name
ROWS: Final = "output_rows"
ROWS_DELTA: Final = "output_rows_delta"


@dataclass(frozen=True)
class Metric:
    """A metric of the runtime; ``tags`` are those besides the ones every series of a node has."""

    kind: Kind
    meaning: str
    tags: tuple[str, ...] = ()
    unit: str = ""


def unit_of(name: str, kind: Kind) -> str:
    """In which unit ``name`` is measured; empty for plain numbers."""
    known = METRICS.get(name)
    return MILLISECONDS if kind == "histogram" else known.unit if known else ""


def meaning_of(name: str) -> str:
    """What ``name`` says, as far as we know."""
    known = METRICS.get(name)
    return known.meaning if known else ""


METRICS: Final = {
    "output_rows": Metric("counter", "Rows that left the node; of a sink: rows written."),
    "input_rows": Metric("counter", "Rows that came to the node."),
    "http_requests": Metric("counter", "Requests that were answered, or failed.", ("outcome", "status_class")),
    "http_retries": Metric("counter", "Requests that were sent once more.", ("status_class",)),
    "http_request_latency": Metric("histogram", "Time from a request to its answer."),
    "checkpoint_epochs_succeeded": Metric("counter", "Checkpoints that were stored."),
    "checkpoint_epochs_failed": Metric("counter", "Checkpoints that were given up."),
    "checkpoint_epoch_duration": Metric("histogram", "Time from the start of a checkpoint until it is stored."),
    "checkpoint_acks_received": Metric("counter", "Sinks that told that everything before a marker is durable."),
    "checkpoint_per_sink_ack_latency": Metric("histogram", "Time from the start of a checkpoint to a sink's answer."),
    "kafka_consumer_messages_lag": Metric("gauge", "Messages of a partition that are not read yet.", ("partition",)),
}
