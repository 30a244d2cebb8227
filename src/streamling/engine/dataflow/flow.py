"""A flow: one source and everything downstream of it.

Flows differ in what starts a batch: a `PolledFlow` asks its source, a `StreamedFlow` waits for its stream. Both deliver
a batch, remember the position after it, and then, between batches, send the marker of an epoch and notify the source of
commits.

A flow's life: ``start`` → batches → ``pause`` (no further batch starts; markers are still sent, so that the terminal
epoch can complete) → ``close``.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from streamling.engine.dataflow.network import Outlet
from streamling.errors import StreamlingError
from streamling.observe.activity import Activity
from streamling.pipeline.error_locations import add_location, node_error, node_errors
from streamling.pipeline.model import Node
from streamling.plugins.sources import AnySource, Position
from streamling.threads import ContextThread
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.engine.dataflow.realtime import Delay
    from streamling.engine.dataflow.side_outputs import SideOutputStep
    from streamling.engine.dataflow.table_gate import TableGate

T = TypeVar("T")

#: seconds between two checks whether the tables that rows query are filled
GATE_CHECK = 0.05

#: called with the flow's name, the epoch and the position that the epoch covers
OnMarked = Callable[[str, int, Position], None]


class Flow(ABC):
    """The base of both kinds of flows: delivers batches and handles requests between them."""

    def __init__(
        self,
        name: str,
        node: Node,
        session: SparkSession,
        outlet: Outlet,
        *,
        on_marked: OnMarked,
        on_moved: Callable[[], None],
        on_end: Callable[[str], None],
        on_failure: Callable[[StreamlingError], None],
        activity: Activity,
    ) -> None:
        self.name = name
        self.node = node
        self._session = session
        self._outlet = outlet
        self._ports = outlet.ports()
        self._on_marked = on_marked
        self._on_moved = on_moved
        #: whether a batch was delivered since the last marker
        self._has_moved = False
        self._on_end = on_end
        self._on_failure = on_failure
        self._activity = activity
        #: whether no batch is delivered until it is reset
        self._on_hold = False
        self._paused = threading.Event()
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._position: Position = {}
        self._requested: int | None = None
        self._committed: tuple[int, Position] | None = None
        self._thread = ContextThread(self._run, f"flow {name}")
        for port in self._ports:
            port.add_feeder(self.name)
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

    @property
    @abstractmethod
    def source(self) -> AnySource[Any]: ...

    @abstractmethod
    def _flow(self) -> None:
        """Deliver batches until the end or a pause; handle requests between batches; return when closed."""

    def start(self) -> None:
        """Open the source and deliver batches; returns immediately."""
        self._thread.start()

    def pause(self) -> None:
        """Start no further batch; returns immediately."""
        self._paused.set()
        self._wake_up()

    def hold(self, on_hold: bool) -> None:
        """Deliver no batches, until this is called again with False; markers are still sent. Returns immediately."""
        self._on_hold = on_hold
        self._wake_up()

    def close(self, timeout: float) -> bool:
        """End the flow once the current batch has been delivered; False if that took longer than ``timeout``."""
        self.pause()
        self._closed.set()
        self._wake_up()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    # ── tables that other flows query ────────────────────────────────────────────────────────────────────────

    def watch(self, request_checkpoint: Callable[[], object]) -> None:
        """Other flows wait for this one: request a checkpoint when it has caught up. Only before the start."""
        self._request_checkpoint = request_checkpoint

    def has_filled(self, table: SideOutputStep) -> bool:
        """Whether ``table`` has received everything that the source had at the start. If there is a lane in between, a
        marker has to arrive."""
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
        return self._on_hold or (self.gate is not None and not self.gate.is_open())

    def find_delays(self) -> Sequence[Delay]:
        """What rows of a real-time source would wait for. Called before the start."""
        return ()

    def restart(self, timeout: float) -> bool:
        """Restart the source's stream at its position, if it has one; False if the current batch was not delivered
        within ``timeout`` seconds."""
        return True

    def _run(self) -> None:
        opened = False
        try:
            self._call_source(self.source.open)
            opened = True
            self._position = self._call_source(self.source.restore)
            with self._activity.thread():
                self._flow()
        except (Exception, SystemExit) as error:
            self._fail(error)
        finally:
            if opened:
                self._close_source()

    def _close_source(self) -> None:
        try:
            self._call_source(self.source.close)
        except (Exception, SystemExit) as error:
            self._fail(error)

    # ── between batches ──────────────────────────────────────────────────────────────────────────────────────

    def request_marker(self, epoch: int) -> None:
        """Send the marker of ``epoch`` at the next batch boundary."""
        self._requested = epoch
        self._wake_up()

    def commit(self, epoch: int, position: Position) -> None:
        """``position`` has been stored: let the source commit it, between batches."""
        self._committed = epoch, position
        self._wake_up()

    def _wake_up(self) -> None:
        """End the wait of the flow's thread."""
        self._wake.set()

    def _idle(self, seconds: float | None) -> None:
        """Sleep, but wake up for markers and commits."""
        with self._activity.waiting("starved"):
            self._wake.wait(seconds)
        self._wake.clear()
        self._handle_requests()

    def _handle_requests(self) -> None:
        epoch, self._requested = self._requested, None
        if epoch is not None:
            self._has_moved = False
            if self._caught_up_epoch is None and self._caught_up.is_set():
                self._caught_up_epoch = epoch
            self._on_marked(self.name, epoch, self._position)
            for port in self._ports:
                port.mark(self.name, epoch)
        committed, self._committed = self._committed, None
        if committed is not None:
            self._call_source(lambda: self.source.commit(committed[1]))
            self._call_source(lambda: self.source.finalized(committed[0]))

    def _move(self, position: Position) -> None:
        """A batch was delivered, or a stream begins elsewhere: the next epoch has something to store."""
        self._position = position
        if not self._has_moved:
            self._has_moved = True
            self._on_moved()

    def _call_source(self, call: Callable[[], T]) -> T:
        """Call the source; its errors name the node."""
        with node_errors(self.node):
            return call()

    def _fail(self, error: BaseException) -> None:
        self.pause()
        if isinstance(error, StreamlingError):  # without a node it is about the plan of several
            self._on_failure(add_location(error, self.node))
        else:
            self._on_failure(node_error(error, self.node))

    def _delivered(self, rows: int) -> None:
        self.rows_in = (self.rows_in or 0) + rows

    def _with_operation(self, frame: DataFrame) -> DataFrame:
        if OP_COLUMN in frame.columns:
            return frame
        from pyspark.sql import functions as f

        return frame.withColumn(OP_COLUMN, f.lit("i"))
