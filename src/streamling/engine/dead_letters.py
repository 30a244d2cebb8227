"""Bad rows on their way to a dead-letter sink.

The sink is a step like any other: it gets markers from whoever sends it rows, after the rows, and an epoch is complete
only when it has flushed too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.engine.lane import Work
from streamling.engine.network import Outlet, Port, Step
from streamling.engine.rows import Rows
from streamling.plugins.rejects import REJECT, Rejects, bad_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sifted(outlet: Outlet, node: str, dead_letters: Step) -> Outlet:
    """An outlet for rows with a column `REJECT`: the good ones go on to ``outlet``."""
    return Outlet(node, [_BadRows(node, dead_letters), _GoodRows(outlet)])


class _GoodRows:
    wants_frame = True

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def accept(self, upstream: str, rows: Rows) -> None:
        self._outlet.emit(_over(rows, lambda frame: frame.where(f"{REJECT} IS NULL").drop(REJECT)))

    def ports(self) -> Sequence[Port]:
        return self._outlet.ports()


class _BadRows:
    #: both ask Spark, so that what was read is kept for the second
    wants_frame = True

    def __init__(self, node: str, dead_letters: Step) -> None:
        self._node = node
        self._dead_letters = dead_letters

    def accept(self, upstream: str, rows: Rows) -> None:
        found = _over(rows, lambda frame: frame.where(f"{REJECT} IS NOT NULL").select(f"{REJECT}.*"))
        for batch in found.batches():
            errors, positions, payloads = (batch.column(name).to_pylist() for name in ("error", "position", "payload"))
            bad = bad_rows(self._node, errors, positions, payloads)
            self._dead_letters.accept(upstream, Rows(rows.session, batches=[bad], producer=rows.producer))

    def ports(self) -> Sequence[Port]:
        return self._dead_letters.ports()


def _over(rows: Rows, plan: Callable[[DataFrame], DataFrame]) -> Rows:
    return Rows(rows.session, frame=plan(rows.frame()), lineage=rows.lineage, producer=rows.producer)


# ── what operators reject ────────────────────────────────────────────────────────────────────────────────────


class Letters:
    """The way from one instance of an operator to the dead-letter sink of its node."""

    def __init__(self, feeder: str, rejects: Rejects, sink: Step, rows: Callable[[str, pa.RecordBatch], Rows]) -> None:
        self._feeder = feeder
        self._rejects = rejects
        self._sink = sink
        self._rows = rows
        self.ports = sink.ports()
        for port in self.ports:
            port.add_feeder(feeder)

    def send(self) -> None:
        """Hand over what has been rejected so far."""
        for batch in self._rejects.take():
            self._sink.accept(self._feeder, self._rows(self._feeder, batch))

    def mark(self, epoch: int) -> None:
        self.send()
        for port in self.ports:
            port.mark(self._feeder, epoch)


class RejectingWork:
    """The work of a lane whose operator rejects rows: they are on their way before the marker of their epoch is."""

    def __init__(self, work: Work, letters: Letters) -> None:
        self._work = work
        self._letters = letters

    def open(self, wake: Callable[[], None]) -> None:
        self._work.open(wake)

    def process(self, batch: pa.RecordBatch) -> None:
        self._work.process(batch)
        self._letters.send()

    def proceed(self) -> None:
        self._work.proceed()
        self._letters.send()

    def mark(self, epoch: int) -> None:
        self._work.mark(epoch)
        self._letters.mark(epoch)

    def finalized(self, epoch: int) -> None:
        self._work.finalized(epoch)

    def close(self) -> None:
        self._work.close()
