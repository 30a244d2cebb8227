"""Delivers small batches of a stream without a Spark job, as far as the driver can evaluate their plan.

The plan is made once per stream. It contains the decoding of the source and all SQL that follows it as the only
consumer; a sink that Spark writes may add its own part. What follows receives the rows as Arrow data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

import pyarrow as pa

from streamling.dataflow.dead_letters import SplitRejectedStep, rejected_rows, valid_rows
from streamling.dataflow.frame_sink import FrameSinkStep
from streamling.dataflow.meter import NodeMeter
from streamling.dataflow.network import FrameStep, Outlet, Step
from streamling.dataflow.row_measures import RowMeasures
from streamling.dataflow.rows import Rows
from streamling.errors import StreamlingError
from streamling.observe.activity import Edge, passing
from streamling.plugins.streams import LocalPlan, Stream
from streamling.spark.counting import row_count

#: takes the aggregates of an observation in the plan
Report = Callable[[Sequence[float | None]], None]


class LocalDelivery(Protocol):
    """Delivers the small batches of one stream."""

    def deliver(self, messages: Any) -> None:
        """Evaluate the plan over ``messages`` (`StreamBatch.messages`) and pass the rows on."""


def local_delivery(stream: Stream, rows: Rows, outlet: Outlet, meter: NodeMeter | None) -> LocalDelivery | None:
    """The delivery that evaluates as many steps as possible; None if the driver cannot evaluate the source's own part.
    ``rows`` have the plan of the source and no data; ``meter`` is that of the source if rows are to be counted inside
    the plan."""
    if isinstance(split := outlet.only_step, SplitRejectedStep):
        return _RejectingDelivery.of(stream, rows, split, meter)
    return _longest(stream, _Part.of_source(rows, outlet, meter))


@dataclass(frozen=True)
class _Part:
    """The plan from the source to a node: the rows of the node without data, and what takes them."""

    rows: Rows
    outlet: Outlet
    #: counts the rows of the node; None: nothing is counted inside the plan
    meter: NodeMeter | None
    #: what to do with the observations in the plan, by name
    reports: Mapping[str, Report] = field(default_factory=dict)
    #: from the source to the node
    edges: tuple[Edge, ...] = ()
    #: the parts of the nodes before it
    above: tuple[_Part, ...] = ()

    @classmethod
    def of_source(cls, rows: Rows, outlet: Outlet, meter: NodeMeter | None) -> _Part:
        """The part of the source alone. If the source adds its measures itself, they are in its plan."""
        measures = None if outlet.meter is None else outlet.meter.measures
        part = cls(rows, outlet, meter)
        in_plan = measures is not None and measures.by_source and measures.is_in_plan
        return part.reporting(measures) if in_plan else part

    def with_step(self, step: FrameStep, *, is_branch: bool = False) -> _Part:
        """The part with one more step. If ``is_branch``, another plan counts the rows up to here."""
        part = self if is_branch else self.measured()
        rows = part.rows
        reports = {name: _counting() if is_branch else report for name, report in part.reports.items()}
        if self.meter is not None:
            name = f"rows_{len(reports)}"
            report = [step.meter.count_rows_in, *([] if is_branch else [self.meter.count_rows_out])]
            reports[name] = _counting(*report)
            rows = rows.with_frame(rows.frame().observe(name, row_count()))
        meter = None if self.meter is None else step.meter
        edge = self.outlet.edge_to(step)
        edges = self.edges if edge is None else (*self.edges, edge)
        made = step.transform(self.outlet.node, rows)
        return _Part(made, step.outlet, meter, reports, edges, (*self.above, self))

    def measured(self) -> _Part:
        """The part with the measures of its last node: for rows that do not pass its outlet."""
        measures = None if self.outlet.meter is None else self.outlet.meter.measures
        if measures is None or measures.by_source:
            return self
        frame = measures.observe(self.rows.frame())
        return replace(self, rows=self.rows.with_frame(frame)).reporting(measures)

    def reporting(self, measures: RowMeasures | None) -> _Part:
        """The part if its plan contains ``measures``."""
        return self if measures is None else replace(self, reports={**self.reports, measures.name: measures.record})

    @property
    def is_deterministic(self) -> bool:
        """Whether several plans that contain this part compute the same rows."""
        return all(operator.is_deterministic for _, operator in self.rows.lineage)

    def emit(self, batch: pa.RecordBatch) -> None:
        """Pass the rows of the node on."""
        with ExitStack() as path:
            for edge in self.edges:
                path.enter_context(passing(edge))
            self.outlet.emit(Rows(self.rows.session, batches=[batch], producer=self.rows.producer))

    def report(self, plan: LocalPlan) -> None:
        """Report what ``plan`` has counted."""
        if self.reports:
            for name, values in plan.observed().items():
                self.reports[name](values)


def _counting(*counters: Callable[[int], None]) -> Report:
    def report(values: Sequence[float | None]) -> None:
        for count in counters:
            count(int(values[0] or 0))

    return report


def _longest(stream: Stream, source: _Part) -> LocalDelivery | None:
    for part in reversed(_parts(source)):
        found = _to_sink(stream, part, part.outlet.only_step) or _to_branches(stream, part) or _to_arrow(stream, part)
        if found is not None:
            return found
    return None


def _shown(stream: Stream, parts: Sequence[_Part]) -> list[_ShownPart]:
    return [_ShownPart(stream, part) for part in parts]


class _ShownPart:
    """Shows rows of a node that the plan of another one contains."""

    def __init__(self, stream: Stream, part: _Part) -> None:
        self._part = part
        self._plan = cache(lambda: stream.local_plan(part.rows.frame()))

    def show(self, messages: Any) -> None:
        """Evaluate the plan once more if somebody watches the node."""
        outlet, rows = self._part.outlet, self._part.rows
        if outlet.is_watched and (plan := self._plan()) is not None:
            with suppress(StreamlingError):  # the rows have been delivered: this must not stop the pipeline
                batch = rows.run(lambda: plan.to_arrow(messages))
                outlet.show(Rows(rows.session, batches=[batch]))


def _parts(part: _Part) -> list[_Part]:
    """The part of the source, and those with one, two … of the SQL steps that follow it."""
    parts = [part]
    while isinstance(step := parts[-1].outlet.only_step, FrameStep) and not step.per_batch:
        parts.append(parts[-1].with_step(step))
    return parts


def _to_arrow(stream: Stream, part: _Part) -> LocalDelivery | None:
    plan = stream.local_plan(part.rows.frame())
    return None if plan is None else _ArrowDelivery(plan, part, _shown(stream, part.above))


def _to_sink(stream: Stream, part: _Part, step: Step | None) -> LocalDelivery | None:
    if not isinstance(step, FrameSinkStep):
        return None
    part = part.measured()
    if (prepared := step.prepare_local(part.rows)) is None:
        return None
    plan = stream.local_plan(prepared.frame())
    if plan is None:
        return None
    return _SinkDelivery(plan, prepared, part.reporting(step.measures), step, _shown(stream, [*part.above, part]))


def _to_branches(stream: Stream, part: _Part) -> LocalDelivery | None:
    """Each SQL consumer of a node gets a plan of its own; all other consumers get the rows of the node."""
    outlet = part.outlet
    if len(outlet.steps) < 2 or outlet.side_outputs or not part.is_deterministic:
        return None
    branches: list[LocalDelivery] = []
    others: list[Step] = []
    for step in outlet.steps:
        branch = None
        if isinstance(step, FrameStep) and not step.per_batch:
            branch = _longest(stream, part.with_step(step, is_branch=True))
        if branch is None:
            others.append(step)
        else:
            branches.append(branch)
    return _BranchDelivery.of(stream, replace(part, outlet=outlet.with_steps(others)), branches) if branches else None


@dataclass(frozen=True)
class _ArrowDelivery:
    """Passes rows on as Arrow data."""

    plan: LocalPlan
    part: _Part
    above: Sequence[_ShownPart]

    def deliver(self, messages: Any) -> None:
        batch = self.part.rows.job(lambda: self.plan.to_arrow(messages))
        self.part.report(self.plan)
        if batch.num_rows:
            self.part.emit(batch)
        for each in self.above:
            each.show(messages)


@dataclass(frozen=True)
class _SinkDelivery:
    """Writes rows with a sink that takes them as they are in the JVM."""

    plan: LocalPlan
    prepared: Rows
    part: _Part
    sink: FrameSinkStep
    above: Sequence[_ShownPart]

    def deliver(self, messages: Any) -> None:
        local = self.prepared.job(lambda: self.plan.to_rows(messages))
        self.part.report(self.plan)
        if local.count:
            self.sink.accept_local(local)
            if self.part.meter is not None:  # the rows that the sink takes are the output of its upstream
                self.part.meter.count_rows_out(local.count)
        for each in self.above:
            each.show(messages)


@dataclass(frozen=True)
class _BranchDelivery:
    """Passes the rows of a node on to several consumers."""

    #: takes the rows for consumers without a plan of their own, and counts them
    others: LocalDelivery
    branches: Sequence[LocalDelivery]

    @classmethod
    def of(cls, stream: Stream, others: _Part, branches: Sequence[LocalDelivery]) -> _BranchDelivery | None:
        delivery = _to_arrow(stream, others)
        return None if delivery is None else cls(delivery, branches)

    def deliver(self, messages: Any) -> None:
        self.others.deliver(messages)
        for branch in self.branches:
            branch.deliver(messages)


@dataclass(frozen=True)
class _RejectingDelivery:
    """Two plans over the same messages: the first finds the rejected rows, the second passes the valid ones on."""

    plan: LocalPlan
    rejected: Rows
    split: SplitRejectedStep
    valid: LocalDelivery

    @classmethod
    def of(
        cls, stream: Stream, rows: Rows, split: SplitRejectedStep, meter: NodeMeter | None
    ) -> _RejectingDelivery | None:
        rejected = rejected_rows(rows)
        plan = stream.local_plan(rejected.frame())
        valid = _longest(stream, _Part.of_source(valid_rows(rows), split.outlet, meter))
        return None if plan is None or valid is None else cls(plan, rejected, split, valid)

    def deliver(self, messages: Any) -> None:
        batch = self.rejected.job(lambda: self.plan.to_arrow(messages))
        if batch.num_rows:
            self.split.send(Rows(self.rejected.session, batches=[batch], producer=self.rejected.producer))
        self.valid.deliver(messages)
