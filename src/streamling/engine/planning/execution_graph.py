"""Everything that runs in a pipeline: starting, pausing and closing it as a whole, and what its parts report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamling.engine.dataflow.events import OnFailure
from streamling.engine.dataflow.flow import Flow
from streamling.engine.dataflow.frame_sink import FrameSinkNode
from streamling.engine.dataflow.lane import Lane
from streamling.engine.dataflow.side_outputs import SideOutputNode
from streamling.errors import StreamlingError
from streamling.plugins.delivery import Delivery
from streamling.plugins.operators import Operator
from streamling.plugins.sources import Position


@dataclass
class ExecutionGraph:
    """All running parts in the order in which they were made: downstream first."""

    flows: dict[str, Flow[Any]] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)
    frame_sinks: list[FrameSinkNode] = field(default_factory=list)
    side_outputs: dict[str, SideOutputNode] = field(default_factory=dict)
    #: names of sinks and side outputs, which acknowledge epochs
    sinks: list[str] = field(default_factory=list)
    #: all instances by node name
    operators: dict[str, list[Operator[Any]]] = field(default_factory=dict)

    @property
    def nodes_without_lane(self) -> list[FrameSinkNode | SideOutputNode]:
        """Steps that have an operator to open and close but no thread of their own."""
        return [*self.side_outputs.values(), *self.frame_sinks]

    # ── the life of the parts ────────────────────────────────────────────────────────────────────────────────

    def start(self, on_failure: OnFailure) -> None:
        """Open everything and let data flow; returns immediately. If a node cannot be opened, those that were opened
        before it are closed again; an error of closing one goes to ``on_failure``."""
        opened: list[FrameSinkNode | SideOutputNode] = []
        try:
            for node in self.nodes_without_lane:
                node.open()
                opened.append(node)
        except StreamlingError:
            _close_nodes(opened, on_failure)
            raise
        for lane in self.lanes:
            lane.start()
        for flow in self.flows.values():
            flow.start()

    def stop_reading(self) -> None:
        """Read no more batches."""
        for flow in self.flows.values():
            flow.stop_reading()

    def pause(self, is_paused: bool) -> None:
        """Deliver no batches until this is called with False."""
        for flow in self.flows.values():
            flow.pause(is_paused)

    def restart_streams(self) -> None:
        """Let all streams start again at their positions; returns immediately."""
        for flow in self.flows.values():
            flow.restart(0)

    def commit(self, epoch: int, positions: Mapping[str, Position]) -> None:
        """Let the sources commit the stored positions, by the name of their flow."""
        for name, position in positions.items():
            self.flows[name].commit(epoch, position)

    def notify_finalized(self, epoch: int) -> None:
        """Notify the operators that the positions of ``epoch`` are stored."""
        for lane in self.lanes:
            lane.notify_finalized(epoch)
        for node in self.nodes_without_lane:
            node.notify_finalized(epoch)

    def close(self, remaining: Callable[[], float], on_failure: OnFailure) -> tuple[list[Flow[Any]], list[Lane]]:
        """Close flows first, then lanes from the top down, so that everything in the queues is processed. Returns what
        was still busy after its ``remaining()`` seconds."""
        late = [flow for flow in self.flows.values() if not flow.close(remaining())]
        stuck = []
        for lane in reversed(self.lanes):
            lane.end()
            if not lane.join(remaining()):
                stuck.append(lane)
        _close_nodes(self.nodes_without_lane, on_failure)
        return late, stuck

    # ── what can be read at any time ─────────────────────────────────────────────────────────────────────────

    def busy_parts(self) -> list[str]:
        """Return the flows and nodes whose threads have not ended."""
        return [*self.busy_flows(), *self.busy_nodes()]

    def busy_flows(self) -> Iterator[str]:
        """Return the flows whose threads have not ended."""
        return (flow.name for flow in self.flows.values() if not flow.has_ended())

    def busy_nodes(self) -> Iterator[str]:
        """Return the nodes whose lanes have not ended."""
        return (str(lane.node) for lane in self.lanes if not lane.join(0))

    def rows_written(self) -> Mapping[str, int]:
        """Return the rows per sink that its target has acknowledged."""
        return {name: rows for name in self.operators if (rows := self.deliveries(name).delivered)}

    def deliveries(self, node: str) -> Delivery:
        """Return what became of the rows of a sink; nothing for other nodes."""
        return sum((each.context.deliveries.total for each in self.operators.get(node, ())), Delivery())

    @property
    def shared_with(self) -> int:
        """The number of other streams of the process for which the rows of a source are read once."""
        return max((flow.shared_with for flow in self.flows.values()), default=0)

    def queued_batches(self) -> Mapping[str, int]:
        """Return batches that wait in front of each node with lanes."""
        queued: dict[str, int] = {}
        for lane in self.lanes:
            queued[lane.node.name] = queued.get(lane.node.name, 0) + lane.queued
        return queued


def _close_nodes(nodes: Iterable[FrameSinkNode | SideOutputNode], on_failure: OnFailure) -> None:
    for node in nodes:
        try:
            node.close()
        except StreamlingError as error:
            on_failure(error)
