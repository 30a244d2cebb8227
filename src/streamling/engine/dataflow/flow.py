"""A flow: one source and everything downstream of it.

Flows differ in what starts a batch: a `PolledFlow` asks its source until it ends, a `StreamedFlow` until its stream
begins, and then waits for the stream. Both deliver a batch, remember the position after it, and then, between batches,
send the marker of an epoch and notify the source of commits.

A flow is a task: while it waits, it has no thread. Its life: ``start`` → batches → ``stop_reading`` (no further batch
starts; markers are still sent, so that the terminal epoch can complete) → ``close``.
"""

from __future__ import annotations

import logging
import shlex
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from streamling.engine.dataflow.alignment import Port
from streamling.engine.dataflow.events import Events
from streamling.engine.dataflow.rows import Rows, check_columns
from streamling.engine.dataflow.segment import Segment
from streamling.errors import StreamlingError
from streamling.observe.activity import Activity
from streamling.pipeline.error_locations import add_location, node_error, node_errors
from streamling.pipeline.model import Node
from streamling.plugins.sources import AnySource, End, Position, Source, SourceBatch, SparkRead, Wait
from streamling.tasks import Steps, Task
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.engine.dataflow.realtime import Delay
    from streamling.engine.dataflow.side_outputs import SideOutputNode
    from streamling.engine.dataflow.table_gate import TableGate


log = logging.getLogger(__name__)

T = TypeVar("T")
SourceT = TypeVar("SourceT", bound=AnySource[Any])

#: returns what follows a position
Read = Callable[[Position], SourceBatch | Wait | End]

#: seconds between two checks whether the tables that rows query are filled
GATE_CHECK = 0.05


@dataclass(frozen=True)
class SourceInstance(Generic[SourceT]):
    """A source, or one of its instances."""

    name: str
    node: Node
    operator: SourceT
    schema: pa.Schema


class Flow(ABC, Generic[SourceT]):
    """The base of both kinds of flows: polls for batches, delivers them and handles requests between them."""

    def __init__(
        self,
        source: SourceInstance[SourceT],
        session: SparkSession,
        segment: Segment,
        events: Events,
        activity: Activity,
    ) -> None:
        self.name = source.name
        self.node = source.node
        self.source = source.operator
        self._schema = source.schema
        self._session = session
        self._segment = segment
        self._dead_letters = segment.dead_letters
        self._ports: list[Port] = segment.ports()
        for port in self._ports:
            port.add_feeder(self.name)
        if self._dead_letters is not None:
            self._ports += self._dead_letters.ports
        self._events = events
        self._activity = activity
        #: whether a batch was delivered since the last marker
        self._has_moved = False
        #: whether no batch is delivered until the user resumes
        self._is_paused = False
        self._stopping = threading.Event()
        self._closed = threading.Event()
        self._position: Position = {}
        self._requested: int | None = None
        self._committed: tuple[int, Position] | None = None
        self._worker = activity.worker()
        own_thread = self.source.own_thread
        self._task = Task(self._run, f"flow {self.name}", during=self._worker.step, own_thread=own_thread)
        #: rows that the source has delivered; None if unknown
        self.rows_in: int | None = None
        #: closed until the tables that rows of this flow query are filled
        self.gate: TableGate | None = None
        #: requests a checkpoint; None: no flow waits for this one
        self._request_checkpoint: Callable[[], object] | None = None
        #: set when everything that the source had at the start has been delivered
        self._caught_up = threading.Event()
        #: the first epoch whose marker came after that
        self._caught_up_epoch: int | None = None

    @abstractmethod
    def _flow(self) -> Steps:
        """Deliver batches until the end or `stop_reading`; handle requests between batches; end when closed."""

    def start(self) -> None:
        """Open the source and deliver batches; returns immediately."""
        self._task.start()

    def stop_reading(self) -> None:
        """Start no further batch; returns immediately."""
        self._stopping.set()
        self._wake_up()

    @property
    def has_stopped_reading(self) -> bool:
        return self._stopping.is_set()

    def pause(self, is_paused: bool = True) -> None:
        """Deliver no batches, until this is called again with False; markers are still sent. Returns immediately."""
        self._is_paused = is_paused
        self._wake_up()

    def close(self, timeout: float) -> bool:
        """End the flow once the current batch has been delivered; False if that took longer than ``timeout``."""
        self.stop_reading()
        self._closed.set()
        self._wake_up()
        return self._task.join(timeout)

    def has_ended(self) -> bool:
        return not self._task.is_alive

    # ── tables that other flows query ────────────────────────────────────────────────────────────────────────

    def watch(self, request_checkpoint: Callable[[], object]) -> None:
        """Request a checkpoint when this flow has caught up, because other flows wait for it. Only before the start."""
        self._request_checkpoint = request_checkpoint

    def has_filled(self, table: SideOutputNode) -> bool:
        """Return whether ``table`` has received everything that the source had at the start. If there is a lane in
        between, a marker has to arrive."""
        if not self._caught_up.is_set():
            return False
        if table in self._ports:
            return True
        return self._caught_up_epoch is not None and table.completed >= self._caught_up_epoch

    def _notice_caught_up(self, caught_up: bool) -> None:
        if caught_up and self._request_checkpoint is not None and not self._caught_up.is_set():
            self._caught_up.set()
            self._request_checkpoint()

    @property
    def _held_back(self) -> bool:
        return self._is_paused or (self.gate is not None and not self.gate.is_open())

    def find_delays(self) -> Sequence[Delay]:
        """Return what rows of a real-time source would wait for. Called before the start."""
        return ()

    @property
    def shared_with(self) -> int:
        """The number of other streams of the process for which the same rows are read once."""
        return 0

    def restart(self, timeout: float) -> bool:
        """Restart the source's stream at its position, if it has one; False if the current batch was not delivered
        within ``timeout`` seconds."""
        return True

    def _run(self) -> Steps:
        opened = False
        try:
            self._call_source(self.source.open)
            opened = True
            self._position = self._call_source(self.source.restore)
            with self._worker.alive():
                yield from self._flow()
        except (Exception, SystemExit) as error:
            self._fail(error)
        if opened:
            self._close_source()

    def _close_source(self) -> None:
        try:
            self._call_source(self.source.close)
        except (Exception, SystemExit) as error:
            self._fail(error)

    # ── batches ──────────────────────────────────────────────────────────────────────────────────────────────

    def _poll(self, read: Read) -> Generator[float | None, None, bool]:
        """Deliver batches until there are no more. False if the flow stopped reading before."""
        while not self._stopping.is_set():
            step = self._call_source(lambda: read(self._position))
            if isinstance(step, SourceBatch):
                while self._held_back and not self._stopping.is_set():
                    yield from self._idle(GATE_CHECK)
                if self._stopping.is_set():
                    return False
                self._deliver(step)
                self._notice_caught_up(self.source.caught_up())
                self._handle_requests()
            elif isinstance(step, Wait):
                yield from self._wait(step.seconds)
            elif isinstance(step, End):
                return True
        return False

    def _deliver(self, batch: SourceBatch) -> None:
        if may_hold_rows(batch):
            rows = self._rows(batch)
            rows.on_count(self._delivered)
            self._segment.run(rows)
        else:
            self._activity.count_batch(0)
        if self._dead_letters is not None:
            self._dead_letters.send()
        self._move(batch.position)

    def _end(self, restored: Position) -> None:
        """Handle the end of the source, which had started at ``restored``."""
        self._notice_caught_up(True)
        if restored and self._position is restored:
            self._report_nothing_new()
        self._events.on_end(self.name)

    def _report_nothing_new(self) -> None:
        log.info(
            "%s: nothing new to read, earlier runs have read everything. To read it again: "
            "streamling state reset %s --node %s",
            self.node,
            shlex.quote(self.node.location.file),
            self.node.name,
        )

    def _wait(self, seconds: float) -> Steps:
        until = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            yield from self._idle(left)

    def _rows(self, batch: SourceBatch) -> Rows:
        lineage = ((self.node, self.source),)
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

    # ── between batches ──────────────────────────────────────────────────────────────────────────────────────

    def request_marker(self, epoch: int) -> None:
        """Send the marker of ``epoch`` at the next batch boundary."""
        self._requested = epoch
        self._wake_up()

    def commit(self, epoch: int, position: Position) -> None:
        """Let the source commit ``position``, which has been stored."""
        self._committed = epoch, position
        self._task.wake()

    def _wake_up(self) -> None:
        """End the wait of the flow."""
        self._task.wake()

    def _idle(self, seconds: float | None) -> Steps:
        """Wait, but handle markers and commits."""
        if self._requested is None and self._committed is None:  # they may have woken the task before
            with self._activity.waiting("starved"):
                yield seconds
        self._handle_requests()

    def _handle_requests(self) -> None:
        epoch, self._requested = self._requested, None
        if epoch is not None:
            self._has_moved = False
            if self._caught_up_epoch is None and self._caught_up.is_set():
                self._caught_up_epoch = epoch
            self._events.on_marked(self.name, epoch, self._position)
            for port in self._ports:
                port.mark(self.name, epoch)
        self._handle_commit()

    def _handle_commit(self) -> None:
        committed, self._committed = self._committed, None
        if committed is not None:
            self._call_source(lambda: self.source.commit(committed[1]))
            self._call_source(lambda: self.source.finalized(committed[0]))

    def _move(self, position: Position) -> None:
        """Move to the position after a batch, or to where a new stream begins: the next epoch has something to
        store."""
        self._position = position
        if not self._has_moved:
            self._has_moved = True
            self._events.on_moved()

    def _call_source(self, call: Callable[[], T]) -> T:
        """Call the source; its errors name the node."""
        with node_errors(self.node):
            return call()

    def _fail(self, error: BaseException) -> None:
        self.stop_reading()
        if isinstance(error, StreamlingError):  # without a node it is about the plan of several
            self._events.on_failure(add_location(error, self.node))
        else:
            self._events.on_failure(node_error(error, self.node))

    def _delivered(self, rows: int) -> None:
        self.rows_in = (self.rows_in or 0) + rows

    def _with_operation(self, frame: DataFrame) -> DataFrame:
        if OP_COLUMN in frame.columns:
            return frame
        from pyspark.sql import functions as f

        return frame.withColumn(OP_COLUMN, f.lit("i"))


def may_hold_rows(batch: SourceBatch) -> bool:
    """Return False for an empty batch, which only advances the position."""
    return isinstance(batch.rows, SparkRead) or batch.rows.num_rows > 0


class PolledFlow(Flow[Source[Any]]):
    """Polls its source for one batch after another."""

    def _flow(self) -> Steps:
        restored = self._position
        if (yield from self._poll(self._read)):
            self._end(restored)
        while not self._closed.is_set():
            yield from self._idle(None)

    def _read(self, position: Position) -> SourceBatch | Wait | End:
        step = self.source.read(position)
        if isinstance(step, Wait):
            self._notice_caught_up(True)
        return step
