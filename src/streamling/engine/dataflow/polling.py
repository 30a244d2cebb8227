"""What flows have in common that poll their source for batches."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from streamling.engine.dataflow.flow import GATE_CHECK, Flow
from streamling.engine.dataflow.network import Outlet
from streamling.engine.dataflow.rows import Rows, check_columns
from streamling.pipeline.model import Node
from streamling.plugins.sources import AnySource, End, Position, SourceBatch, SparkRead, Wait
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.engine.dataflow.dead_letters import DeadLetterOutput

log = logging.getLogger(__name__)

SourceT = TypeVar("SourceT", bound=AnySource[Any])

#: returns what follows a position
Read = Callable[[Position], SourceBatch | Wait | End]


class PollingFlow(Flow, Generic[SourceT]):
    """Polls for one batch after another: a `PolledFlow` until the end of its source, a `StreamedFlow` until its stream
    begins."""

    def __init__(
        self,
        name: str,
        node: Node,
        source: SourceT,
        schema: pa.Schema,
        session: SparkSession,
        outlet: Outlet,
        dead_letters: DeadLetterOutput | None = None,
        **callbacks: Any,
    ) -> None:
        super().__init__(name, node, session, outlet, **callbacks)
        self._source = source
        self._schema = schema
        self._dead_letters = dead_letters
        self._ports += [] if dead_letters is None else dead_letters.ports

    @property
    def source(self) -> SourceT:
        return self._source

    def _poll(self, read: Read) -> bool:
        """Deliver batches until there are no more. False if the flow was paused before."""
        while not self._paused.is_set():
            step = self._call_source(lambda: read(self._position))
            if isinstance(step, SourceBatch):
                while self._held_back and not self._paused.is_set():
                    self._idle(GATE_CHECK)
                if self._paused.is_set():
                    return False
                self._deliver(step)
                self._notice_caught_up(self._source.caught_up())
                self._handle_requests()
            elif isinstance(step, Wait):
                self._wait(step.seconds)
            elif isinstance(step, End):
                return True
        return False

    def _deliver(self, batch: SourceBatch) -> None:
        if may_hold_rows(batch):
            rows = self._rows(batch)
            rows.on_count(self._delivered)
            self._outlet.emit(rows)
        else:
            self._activity.count_batch(0)
        if self._dead_letters is not None:
            self._dead_letters.send()
        self._move(batch.position)

    def _end(self, restored: Position) -> None:
        """The source has ended; it had started at ``restored``."""
        self._notice_caught_up(True)
        if restored and self._position is restored:
            self._report_nothing_new()
        self._on_end(self.name)

    def _report_nothing_new(self) -> None:
        log.info(
            "%s: nothing new to read, earlier runs have read everything. To read it again: "
            "streamling state reset %s --node %s",
            self.node,
            shlex.quote(self.node.location.file),
            self.node.name,
        )

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._paused.is_set() and (left := until - time.monotonic()) > 0:
            self._idle(left)

    def _rows(self, batch: SourceBatch) -> Rows:
        lineage = ((self.node, self._source),)
        if isinstance(batch.rows, SparkRead):
            read = batch.rows
            frame = self._with_operation(self._call_source(lambda: read.frame(self._session)))
            return Rows(self._session, frame=frame, lineage=lineage, producer=self.name, count=read.rows)
        rows = batch.rows if isinstance(batch.rows, pa.Table) else pa.Table.from_batches([batch.rows])
        if OP_COLUMN not in rows.schema.names:
            operation = pa.field(OP_COLUMN, pa.string(), nullable=False)
            rows = rows.append_column(operation, pa.repeat(pa.scalar("i"), rows.num_rows))
        self._call_source(lambda: check_columns(rows.schema, self._schema))
        batches = rows.combine_chunks().to_batches()
        return Rows(self._session, batches=batches, lineage=lineage, producer=self.name)


def may_hold_rows(batch: SourceBatch) -> bool:
    """False for an empty batch, which only advances the position."""
    return isinstance(batch.rows, SparkRead) or batch.rows.num_rows > 0
