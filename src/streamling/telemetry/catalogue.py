"""What metrics are called outside, and what those of the runtime mean. Plugins record others under their own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from streamling.builtins import builtins
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
    known = metrics().get(name)
    return MILLISECONDS if kind == "histogram" else known.unit if known else ""


def meaning_of(name: str) -> str:
    """What ``name`` says, as far as we know."""
    known = metrics().get(name)
    return known.meaning if known else ""


_RUNTIME: Final = {
    # every node
    "input_rows": Metric("counter", "Rows that came to the node."),
    "output_rows": Metric("counter", "Rows that left the node; of a sink: rows written."),
    "output_rows_delta": Metric("counter", "The same since the last push; only pushed."),
    "elapsed_compute": Metric("histogram", "Time that one batch took; of sources and transforms."),
    "df_input_rows": Metric("counter", "`input_rows` of a SQL node once more, for dashboards made for DataFusion."),
    "df_output_rows": Metric("counter", "`output_rows` of a SQL node once more."),
    "df_elapsed_compute": Metric("histogram", "`elapsed_compute` of a SQL node once more."),
    # the pipeline as a whole
    "checkpoint_epochs_succeeded": Metric("counter", "Checkpoints that were stored."),
    "checkpoint_epochs_failed": Metric("counter", "Checkpoints that failed, which ends the pipeline."),
    "checkpoint_epoch_duration": Metric("histogram", "Time from the beginning of a checkpoint until it is stored."),
    "checkpoint_markers_sent": Metric("counter", "Markers asked for: one per checkpoint and flow."),
    "checkpoint_acks_received": Metric("counter", "Answers of sinks: everything before the marker is durable."),
    "checkpoint_per_sink_ack_latency": Metric(
        "histogram", "Time from the beginning of a checkpoint to the answer of a sink.", ("sink",)
    ),
    "checkpoint_finalizers_sent": Metric("counter", "Checkpoints announced to sources, sinks and plugins."),
    "checkpoint_terminal_finalizer_skipped": Metric("counter", "Last checkpoints that were not complete in time."),
}


@cache
def metrics() -> Mapping[str, Metric]:
    """The metrics of the runtime and of all built-in nodes, by name."""
    found = dict(_RUNTIME)
    for builtin in builtins():
        if builtin.metrics:
            found |= builtin.load(builtin.metrics)
    return found
