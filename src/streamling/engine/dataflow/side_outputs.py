"""Side outputs: they receive the rows of a node before its consumers do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streamling.engine.dataflow.alignment import Arrival, MarkerAlignment
from streamling.engine.dataflow.events import Events
from streamling.engine.dataflow.rows import Rows
from streamling.errors import StreamlingError
from streamling.pipeline.error_locations import node_errors
from streamling.pipeline.model import Node
from streamling.plugins.side_outputs import SideOutput
from streamling.spark.local_frames import to_arrow


class SideOutputNode:
    """One side output. Like a sink it is a port for markers: an epoch is complete when its rows have been received."""

    def __init__(self, node: Node, operator: SideOutput[Any], events: Events) -> None:
        self.node = node
        self.operator = operator
        self._events = events
        #: flows that meet in the node take turns: the rows of one batch are in order, those of two are not
        self._turn = threading.Lock()
        self._alignment = MarkerAlignment()
        #: the last epoch whose rows have all been received
        self.completed = 0

    def open(self) -> None:
        with node_errors(self.node):
            self.operator.open()

    def close(self) -> None:
        with node_errors(self.node):
            self.operator.close()

    @contextmanager
    def showing(self, upstream: str, rows: Rows) -> Iterator[None]:
        """Pass ``rows`` to the side output; the block then passes them to the consumers."""
        with self._turn:
            self._show(upstream, rows)
            complete = False
            try:
                yield
                complete = True
            finally:
                with node_errors(self.node):
                    self.operator.after_emit(complete)

    def _show(self, upstream: str, rows: Rows) -> None:
        selecting = Rows(rows.session, lineage=(*rows.lineage, (self.node, self.operator)))
        inputs = {upstream: rows.numbered()}
        table = selecting.run(lambda: to_arrow(self.operator.select(rows.session, inputs)), self.node, "selecting")
        with node_errors(self.node):
            self.operator.before_emit(table, self._alignment.last_of(rows.producer))

    # ── markers ─────────────────────────────────────────────────────────────────────────────────────────────

    def add_feeder(self, name: str) -> None:
        self._alignment.add_feeder(name)

    def mark(self, feeder: str, epoch: int) -> None:
        if self._alignment.arrive(feeder, epoch) is Arrival.LAST:
            self.completed = epoch
            with node_errors(self.node):
                entries = self.operator.marker(epoch)
            self._events.on_ack(self.node.name, epoch, entries)

    def notify_finalized(self, epoch: int) -> None:
        try:
            with node_errors(self.node):
                self.operator.finalized(epoch)
        except StreamlingError as error:
            self._events.on_failure(error)
