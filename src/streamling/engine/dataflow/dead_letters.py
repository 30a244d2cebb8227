"""Sends rejected rows to a dead-letter sink.

The sink is a step like any other: every node that sends it rows also sends it markers, after the rows, and an epoch is
complete only when the sink has flushed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from streamling.engine.dataflow.lane import Work
from streamling.engine.dataflow.meter import NodeMeter
from streamling.engine.dataflow.network import Outlet, Port, Step
from streamling.engine.dataflow.rows import Rows
from streamling.observe.dead_letters import RecentDeadLetters
from streamling.plugins.rejects import REJECT_COLUMN, RejectedRows, dead_letter_batch


def rejecting_outlet(outlet: Outlet, node: str, dead_letters: Step, recent: RecentDeadLetters) -> Outlet:
    """An outlet for rows with a column `REJECT_COLUMN`: the valid ones are passed on to ``outlet``."""
    return Outlet(node, [SplitRejectedStep(outlet, node, dead_letters, recent)])


class SplitRejectedStep:
    """Splits the rows of each batch, which are read once."""

    wants_frame = True
    reports_count = False

    def __init__(self, outlet: Outlet, node: str, dead_letters: Step, recent: RecentDeadLetters) -> None:
        #: takes the valid rows
        self.outlet = outlet
        self.name = node
        self._dead_letters = dead_letters
        self._recent = recent
        #: if the valid rows are loaded into this process anyway, Spark need not cache them: half the CPU time
        self._in_python = not outlet.side_outputs and not any(step.wants_frame for step in outlet.steps)

    def accept(self, upstream: str, rows: Rows) -> None:
        in_python = self._in_python or rows.in_python
        rejected, valid = _split_in_python(rows) if in_python else _split_in_spark(rows)
        self.send(rejected)
        self.outlet.emit(valid)

    def send(self, rejected: Rows) -> None:
        """Send rejected rows, with the fields of `REJECT_COLUMN` as columns, to the dead-letter sink."""
        for batch in rejected.batches():
            letters = dead_letter_batch(
                self.name, *(batch.column(name).to_pylist() for name in ("error", "position", "payload"))
            )
            self._recent.add(self.name, letters)
            if self.outlet.meter is not None:
                self.outlet.meter.count_rejected(letters.num_rows)
            self._dead_letters.accept(self.name, Rows(rejected.session, batches=[letters], producer=rejected.producer))

    def ports(self) -> Sequence[Port]:
        return [*self._dead_letters.ports(), *self.outlet.ports()]


def _split_in_spark(rows: Rows) -> tuple[Rows, Rows]:
    rows.persist()
    return rejected_rows(rows), valid_rows(rows)


def rejected_rows(rows: Rows) -> Rows:
    """The plan of the reasons for the rejection, with the fields of `REJECT_COLUMN` as columns."""
    return rows.with_frame(rows.frame().where(f"{REJECT_COLUMN} IS NOT NULL").select(f"{REJECT_COLUMN}.*"))


def valid_rows(rows: Rows) -> Rows:
    """The plan of the rows that are not rejected."""
    return rows.with_frame(rows.frame().where(f"{REJECT_COLUMN} IS NULL").drop(REJECT_COLUMN))


def _split_in_python(rows: Rows) -> tuple[Rows, Rows]:
    rejected, valid = [], []
    for batch in rows.batches():
        reasons, others = batch.column(REJECT_COLUMN), batch.drop_columns([REJECT_COLUMN])
        if reasons.null_count < batch.num_rows:
            rejected.append(pa.RecordBatch.from_struct_array(reasons.drop_null()))
            others = others.filter(reasons.is_null())
        if others.num_rows:
            valid.append(others)
    return _like(rows, batches=rejected), _like(rows, batches=valid)


def _like(rows: Rows, **made: Any) -> Rows:
    return Rows(rows.session, lineage=rows.lineage, producer=rows.producer, **made)


# ── rows that operators reject ───────────────────────────────────────────────────────────────────────────────


class DeadLetterOutput:
    """Connects one instance of an operator with the dead-letter sink of its node."""

    def __init__(
        self,
        feeder: str,
        node: str,
        rejected: RejectedRows,
        sink: Step,
        rows: Callable[[str, pa.RecordBatch], Rows],
        recent: RecentDeadLetters,
        meter: NodeMeter,
    ) -> None:
        self._feeder = feeder
        self._meter = meter
        self._node = node
        self._recent = recent
        self._rejected = rejected
        self._sink = sink
        self._rows = rows
        self.ports = sink.ports()
        for port in self.ports:
            port.add_feeder(feeder)

    def send(self) -> None:
        """Send the rows that have been rejected so far."""
        for batch in self._rejected.take():
            self._recent.add(self._node, batch)
            self._meter.count_rejected(batch.num_rows)
            self._sink.accept(self._feeder, self._rows(self._feeder, batch))

    def mark(self, epoch: int) -> None:
        self.send()
        for port in self.ports:
            port.mark(self._feeder, epoch)


class RejectingWork:
    """The work of a lane whose operator rejects rows: they are sent before the marker of their epoch."""

    def __init__(self, work: Work, output: DeadLetterOutput) -> None:
        self._work = work
        self._output = output

    def open(self, wake: Callable[[], None]) -> None:
        self._work.open(wake)

    def process(self, batch: pa.RecordBatch) -> None:
        self._work.process(batch)
        self._output.send()

    def proceed(self) -> None:
        self._work.proceed()
        self._output.send()

    def alignment_started(self, epoch: int) -> None:
        self._work.alignment_started(epoch)

    def mark(self, epoch: int) -> None:
        self._work.mark(epoch)
        self._output.mark(epoch)

    def finalized(self, epoch: int) -> None:
        self._work.finalized(epoch)

    def close(self) -> None:
        self._work.close()
