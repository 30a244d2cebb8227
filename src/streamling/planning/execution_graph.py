"""Everything that runs in a pipeline, and what its parts report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamling.dataflow.flow import Flow, OnMarked
from streamling.dataflow.frame_sink import FrameSinkStep
from streamling.dataflow.lane import Lane
from streamling.dataflow.limit import RowLimit
from streamling.dataflow.side_outputs import OnAck, SideOutputStep
from streamling.errors import StreamlingError
from streamling.plugins.operators import Operator


@dataclass(frozen=True)
class Callbacks:
    """How the parts report to the pipeline."""

    on_ack: OnAck
    on_marked: OnMarked
    on_end: Callable[[str], None]
    on_failure: Callable[[StreamlingError], None]
    #: a row limit has been reached: reason, and whether the unfinished epoch must not be committed
    on_limit: Callable[[str, bool], None]
    #: the first rows have reached a sink
    on_first_rows: Callable[[], None]
    #: requests a checkpoint now
    request_checkpoint: Callable[[], object]


@dataclass
class ExecutionGraph:
    """All running parts in the order in which they were made: downstream first."""

    flows: dict[str, Flow] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)
    frame_sinks: list[FrameSinkStep] = field(default_factory=list)
    side_outputs: dict[str, SideOutputStep] = field(default_factory=dict)
    #: names of sinks and side outputs, which acknowledge epochs
    sinks: list[str] = field(default_factory=list)
    #: all instances by node name
    operators: dict[str, list[Operator[Any]]] = field(default_factory=dict)
    limits: dict[str, RowLimit] = field(default_factory=dict)

    @property
    def steps_without_lane(self) -> list[FrameSinkStep | SideOutputStep]:
        """Steps that have an operator to open and close but no thread of their own."""
        return [*self.side_outputs.values(), *self.frame_sinks]
