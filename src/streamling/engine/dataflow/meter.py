"""What the engine measures for every node: rows in, rows out, time."""

from __future__ import annotations

from dataclasses import dataclass

from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.observe.activity import Activity, work_in_spark
from streamling.observe.live_rows import NodeRows
from streamling.plugins.context import Metrics
from streamling.plugins.delivery import Delivery

#: recorded for every node but sinks at the start, so that the series exists before the first batch
_SEED = 0.001


@dataclass
class SparkCounting:
    """Whether rows that never leave Spark are counted inside its plans, which costs time. May be switched on while a
    pipeline runs."""

    active: bool = False


class NodeMeter:
    """Measures one node. ``sub_plan`` is a prefix under which the same values are recorded again, as those of the plan
    inside the node: dashboards made for DataFusion expect it."""

    def __init__(
        self,
        metrics: Metrics,
        activity: Activity,
        live_rows: NodeRows | None,
        measures: RowMeasures | None,
        *,
        takes: bool,
        computes: bool,
        sub_plan: str | None = None,
    ) -> None:
        self.activity = activity
        #: shows some of the node's rows to people; None if it has no output
        self.live_rows = live_rows
        #: what is measured about its rows besides their number
        self.measures = measures
        self._metrics = metrics
        self._prefixes = ("",) if sub_plan is None else ("", sub_plan)
        self.count_rows_out(0)
        if takes:
            self.count_rows_in(0)
        if computes:
            self.record_elapsed(_SEED)

    def count_rows_in(self, rows: int) -> None:
        self._count("input_rows", rows)

    def count_rows_out(self, rows: int) -> None:
        self._count("output_rows", rows)

    def count_delivery(self, delivery: Delivery) -> None:
        """Count what became of rows of a sink."""
        self.count_rows_out(delivery.delivered)
        for name, rows in (("deduplicated_rows", delivery.deduplicated), ("skipped_rows", delivery.skipped)):
            if rows:
                self._count(name, rows)

    def count_rejected(self, rows: int) -> None:
        """Count rows that are sent to the dead-letter sink."""
        self._count("rejected_rows", rows)

    def record_elapsed(self, seconds: float) -> None:
        self.activity.last_seconds = seconds
        for prefix in self._prefixes:
            self._metrics.latency(f"{prefix}elapsed_compute", seconds)

    def record_plan(self, seconds: float) -> None:
        """Record that Spark has worked on a batch, and that this thread has waited for it."""
        self.record_elapsed(seconds)
        work_in_spark(self.activity, seconds)

    def _count(self, name: str, rows: int) -> None:
        for prefix in self._prefixes:
            self._metrics.count(f"{prefix}{name}", rows)
