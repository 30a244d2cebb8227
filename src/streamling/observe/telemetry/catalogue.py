"""Exported names and descriptions of the runtime's metrics. Plugins record others under their own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from streamling.builtins import builtins
from streamling.observe.telemetry.metrics import Kind

PREFIX: Final = "streamling_"
MILLISECONDS: Final = "ms"

#: for these, the difference since the last push is also pushed, under the second name
ROWS: Final = "output_rows"
ROWS_DELTA: Final = "output_rows_delta"


@dataclass(frozen=True)
class Metric:
    """A metric of the runtime; ``tags`` are in addition to those of every series of a node."""

    kind: Kind
    meaning: str
    tags: tuple[str, ...] = ()
    unit: str = ""


def unit_of(name: str, kind: Kind) -> str:
    """Return the unit of ``name``; empty for plain numbers."""
    known = metrics().get(name)
    return MILLISECONDS if kind == "histogram" else known.unit if known else ""


def meaning_of(name: str) -> str:
    """Return the description of ``name``, if it is known."""
    known = metrics().get(name)
    return known.meaning if known else ""


_RUNTIME: Final = {
    # every node
    "input_rows": Metric("counter", "Rows received by the node."),
    "output_rows": Metric(
        "counter", "Rows emitted by the node; for a sink: rows delivered, which means acknowledged by its target."
    ),
    "output_rows_delta": Metric("counter", "Rows emitted since the last push; only pushed."),
    "deduplicated_rows": Metric(
        "counter", "Rows that a sink did not send because a later row of the batch replaces them."
    ),
    "rejected_rows": Metric("counter", "Rows that the node rejected and sent to its dead-letter sink."),
    "skipped_rows": Metric(
        "counter", "Rows that a sink left out: as its options say, or because a replay has found them in the target."
    ),
    "elapsed_compute": Metric("histogram", "Processing time of one batch; only sources and transforms."),
    "df_input_rows": Metric("counter", ("`input_rows` of a SQL node again, for dashboards built for DataFusion.")),
    "df_output_rows": Metric("counter", "`output_rows` of a SQL node again."),
    "df_elapsed_compute": Metric("histogram", "`elapsed_compute` of a SQL node again."),
    "node_wait": Metric(
        "counter",
        "Time the node has waited: `blocked` for a node downstream, or `starved` of rows.",
        ("state", "downstream_id", "execution_kind"),
        MILLISECONDS,
    ),
    "node_backpressure_wait": Metric("histogram", "Length of one wait for a node downstream.", ("execution_kind",)),
    "node_backpressure_events": Metric(
        "counter",
        "Waits for a node downstream that took at least `backpressure_event_threshold_ms`.",
        ("execution_kind",),
    ),
    "node_idle_wait": Metric("histogram", "Length of one wait for rows.", ("execution_kind",)),
    "node_empty_batch": Metric("counter", "Batches without rows.", ("execution_kind",)),
    "node_empty_streak": Metric("gauge", "Batches without rows since the last one with rows.", ("execution_kind",)),
    "node_inflight_buffered": Metric(
        "gauge", "Batches and markers that wait in front of the node.", ("execution_kind",)
    ),
    "event_time_watermark": Metric(
        "gauge", "Latest event time of the node's rows, in milliseconds since 1970.", (), MILLISECONDS
    ),
    "event_time_lag": Metric("histogram", "Age of each row when the node had it; of a source, before its `filter`."),
    # the pipeline as a whole
    "checkpoint_epochs_succeeded": Metric("counter", "Stored checkpoints."),
    "checkpoint_epochs_failed": Metric("counter", "Failed checkpoints; a failed checkpoint stops the pipeline."),
    "checkpoint_epoch_duration": Metric("histogram", "Time from the start of a checkpoint until it is stored."),
    "checkpoint_markers_sent": Metric("counter", "Requested markers: one per checkpoint and flow."),
    "checkpoint_acks_received": Metric(
        "counter", ("Acknowledgements of sinks: everything before the marker is durable.")
    ),
    "checkpoint_per_sink_ack_latency": Metric(
        "histogram", "Time from the start of a checkpoint to the acknowledgement of a sink.", ("sink",)
    ),
    "checkpoint_epochs_in_flight": Metric("gauge", "Checkpoints in progress: 0 or 1."),
    "checkpoint_marker_arrival": Metric(
        "histogram", "Time from the start of a checkpoint until all rows before it have arrived at a sink.", ("sink",)
    ),
    "checkpoint_sink_flush": Metric(
        "histogram", "Time from there until the sink has made the rows durable.", ("sink",)
    ),
    "checkpoint_finalization_wait": Metric("histogram", "Time from there until the checkpoint is stored.", ("sink",)),
    "checkpoint_finalizers_sent": Metric("counter", "Checkpoints announced to sources, sinks and plugins."),
    "checkpoint_terminal_finalizer_skipped": Metric("counter", "Final checkpoints that did not complete in time."),
    "shutdown_unflushed_plugin_dispatchers": Metric(
        "counter", "Instances of plugin nodes that were still busy when the time for the shutdown was up."
    ),
}


@cache
def metrics() -> Mapping[str, Metric]:
    """Return the metrics of the runtime and of all built-in nodes, by name."""
    found = dict(_RUNTIME)
    for builtin in builtins():
        if builtin.metrics:
            found |= builtin.load(builtin.metrics)
    return found
