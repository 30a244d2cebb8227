"""Sends rejected rows to a dead-letter sink.

The sink consumes rows like any other: every node that sends it rows also sends it markers, after the rows, and an epoch
is complete only when the sink has flushed, too. Operators reject rows of Arrow data; the frames of a streamed source
have a column with the reason for the rejection instead, and are split batch by batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.engine.dataflow.rows import Rows
from streamling.plugins.rejects import REJECT_COLUMN, RejectedRows, dead_letter_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.engine.dataflow.alignment import Port
    from streamling.engine.dataflow.meter import NodeMeter
    from streamling.engine.dataflow.segment import Consumer
    from streamling.observe.dead_letters import RecentDeadLetters


class DeadLetterOutput:
    """Connects one instance of an operator with the dead-letter sink of its node."""

    def __init__(
        self,
        feeder: str,
        node: str,
        rejected: RejectedRows,
        sink: Consumer,
        session: SparkSession,
        recent: RecentDeadLetters,
        meter: NodeMeter,
    ) -> None:
        self._feeder = feeder
        self._node = node
        self._rejected = rejected
        self._sink = sink
        self._session = session
        self._recent = recent
        self._meter = meter
        self.ports: Sequence[Port] = sink.ports()
        for port in self.ports:
            port.add_feeder(feeder)

    def send(self) -> None:
        """Send the rows that the operator has rejected so far."""
        for batch in self._rejected.take():
            self._send(batch)

    def send_reasons(self, rejected: Rows) -> None:
        """Send rows that have the fields of `REJECT_COLUMN` as columns."""
        for batch in rejected.batches():
            fields = (batch.column(name).to_pylist() for name in ("error", "position", "payload"))
            self._send(dead_letter_batch(self._node, *fields))

    def mark(self, epoch: int) -> None:
        self.send()
        for port in self.ports:
            port.mark(self._feeder, epoch)

    def _send(self, batch: pa.RecordBatch) -> None:
        self._recent.add(self._node, batch)
        self._meter.count_rejected(batch.num_rows)
        self._sink.accept(self._feeder, Rows(self._session, batches=[batch], producer=self._feeder))


def split_rejected(rows: Rows, *, in_python: bool) -> tuple[Rows, Rows]:
    """Return the rejected rows of a batch, with the fields of `REJECT_COLUMN` as columns, and the valid ones. The batch
    is read once. If the valid rows are loaded into this process anyway (``in_python``), Spark need not cache them: half
    the CPU time."""
    if in_python or rows.in_python:
        return _split_in_python(rows)
    rows.persist()
    return rejected_rows(rows), valid_rows(rows)


def rejected_rows(rows: Rows) -> Rows:
    """Return the plan of the reasons for the rejection, with the fields of `REJECT_COLUMN` as columns."""
    return rows.with_frame(rows.frame().where(f"{REJECT_COLUMN} IS NOT NULL").select(f"{REJECT_COLUMN}.*"))


def valid_rows(rows: Rows) -> Rows:
    """Return the plan of the rows that are not rejected."""
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
    return _with_batches(rows, rejected), _with_batches(rows, valid)


def _with_batches(rows: Rows, batches: list[pa.RecordBatch]) -> Rows:
    return Rows(rows.session, lineage=rows.lineage, producer=rows.producer, batches=batches)
