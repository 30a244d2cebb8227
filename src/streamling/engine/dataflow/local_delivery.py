"""Delivers small batches of a stream without a Spark job, as far as the driver can evaluate their plan.

The plan is made once per stream. It contains the decoding of the source and all SQL that follows it as the only
consumer; a sink that Spark writes may add its own part. What follows receives the rows as Arrow data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

import pyarrow as pa

from streamling.engine.dataflow.dead_letters import SplitRejectedStep, rejected_rows, valid_rows
from streamling.engine.dataflow.frame_sink import FrameSinkStep
from streamling.engine.dataflow.meter import NodeMeter
from streamling.engine.dataflow.network import FrameStep, Outlet, Step
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.engine.dataflow.rows import Rows
from streamling.errors import StreamlingError
from streamling.observe.activity import Edge, passing
from streamling.plugins.streams import LocalPlan, NeedsJob, StreamedSource
from streamling.spark.counting import row_count

#: takes the aggregates of an observation in the plan
Report = Callable[[Sequence[float | None]], None]


class LocalDelivery(Protocol):
    """Delivers the small batches of one stream."""

    def deliver(self, messages: Any) -> None:
        """Evaluate the plan over ``messages`` (`StreamBatch.messages`) and pass the rows on."""

    def ends(self) -> Iterator[Part]:
        """Where the driver cannot continue: the rows of these parts are passed on as Arrow data."""


def local_delivery(
    source: StreamedSource[Any], rows: Rows, outlet: Outlet, meter: NodeMeter | None
) -> LocalDelivery | NeedsJob:
    """The delivery that evaluates as many steps as possible, if the driver can evaluate the source's own part.
    ``rows`` have the plan of the source and no data; ``meter`` is that of the source if rows are to be counted inside
    the plan."""
    if isinstance(split := outlet.only_step, SplitRejectedStep):
        return _RejectingDelivery.of(source, rows, split, meter)
    return _longest(source, Part.of_source(rows, outlet, meter))


@dataclass(frozen=True)
class Part:
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
    above: tuple[Part, ...] = ()

    @classmethod
    def of_source(cls, rows: Rows, outlet: Outlet, meter: NodeMeter | None) -> Part:
        """The part of the source alone. If the source adds its measures itself, they are in its plan."""
        measures = None if outlet.meter is None else outlet.meter.measures
        part = cls(rows, outlet, meter)
        in_plan = measures is not None and measures.by_source and measures.is_in_plan
        return part.reporting(measures) if in_plan else part

    def with_step(self, step: FrameStep, *, is_branch: bool = False) -> Part:
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
        return Part(made, step.outlet, meter, reports, edges, (*self.above, self))

    def measured(self) -> Part:
        """The part with the measures of its last node: for rows that do not pass its outlet."""
        measures = None if self.outlet.meter is None else self.outlet.meter.measures
        if measures is None or measures.by_source:
            return self
        frame = measures.observe(self.rows.frame())
        return replace(self, rows=self.rows.with_frame(frame)).reporting(measures)

    def reporting(self, measures: RowMeasures | None) -> Part:
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


def _longest(source: StreamedSource[Any], first: Part) -> LocalDelivery | NeedsJob:
    found: LocalDelivery | NeedsJob | None = None
    for part in reversed(_parts(first)):
        found = _to_sink(source, part, part.outlet.only_step) or _to_branches(source, part) or _to_arrow(source, part)
        if not isinstance(found, NeedsJob):
            return found
    assert found is not None
    return found


def job_reason(source: StreamedSource[Any], part: Part, step: FrameStep) -> NeedsJob:
    """Why the driver evaluates ``part``, but not the ``step`` that follows it."""
    if (job := step.needs_job) is not None:
        return job
    plan = source.local_plan(part.with_step(step).rows.frame())
    if isinstance(plan, NeedsJob):
        return plan
    reason = f"'{part.outlet.node}' has several consumers, which must get the same random values or times"
    return NeedsJob(reason, "leave one consumer")


def _shown(source: StreamedSource[Any], parts: Sequence[Part]) -> list[_ShownPart]:
    return [_ShownPart(source, part) for part in parts]


class _ShownPart:
    """Shows rows of a node that the plan of another one contains."""

    def __init__(self, source: StreamedSource[Any], part: Part) -> None:
        self._part = part
        self._plan = cache(lambda: source.local_plan(part.rows.frame()))

    def show(self, messages: Any) -> None:
        """Evaluate the plan once more if somebody watches the node."""
        outlet, rows = self._part.outlet, self._part.rows
        if outlet.is_watched and not isinstance(plan := self._plan(), NeedsJob):
            with suppress(StreamlingError):  # the rows have been delivered: this must not stop the pipeline
                batch = rows.run(lambda: plan.to_arrow(messages))
                outlet.show(Rows(rows.session, batches=[batch]))


def _parts(part: Part) -> list[Part]:
    """The part of the source, and those with one, two … of the SQL steps that follow it."""
    parts = [part]
    while isinstance(step := parts[-1].outlet.only_step, FrameStep) and step.needs_job is None:
        parts.append(parts[-1].with_step(step))
    return parts


def _to_arrow(source: StreamedSource[Any], part: Part) -> LocalDelivery | NeedsJob:
    plan = source.local_plan(part.rows.frame())
    return plan if isinstance(plan, NeedsJob) else _ArrowDelivery(plan, part, _shown(source, part.above))


def _to_sink(source: StreamedSource[Any], part: Part, step: Step | None) -> LocalDelivery | None:
    if not isinstance(step, FrameSinkStep):
        return None
    part = part.measured()
    if (prepared := step.prepare_local(part.rows)) is None:
        return None
    plan = source.local_plan(prepared.frame())
    if isinstance(plan, NeedsJob):
        return None
    return _SinkDelivery(plan, prepared, part.reporting(step.measures), step, _shown(source, [*part.above, part]))


def _to_branches(source: StreamedSource[Any], part: Part) -> LocalDelivery | None:
    """Each SQL consumer of a node gets a plan of its own; all other consumers get the rows of the node."""
    outlet = part.outlet
    if len(outlet.steps) < 2 or outlet.side_outputs or not part.is_deterministic:
        return None
    branches: list[LocalDelivery] = []
    others: list[Step] = []
    for step in outlet.steps:
        branch: LocalDelivery | NeedsJob | None = None
        if isinstance(step, FrameStep) and step.needs_job is None:
            branch = _longest(source, part.with_step(step, is_branch=True))
        if branch is None or isinstance(branch, NeedsJob):
            others.append(step)
        else:
            branches.append(branch)
    return _BranchDelivery.of(source, replace(part, outlet=outlet.with_steps(others)), branches) if branches else None


@dataclass(frozen=True)
class _ArrowDelivery:
    """Passes rows on as Arrow data."""

    plan: LocalPlan
    part: Part
    above: Sequence[_ShownPart]

    def deliver(self, messages: Any) -> None:
        batch = self.part.rows.job(lambda: self.plan.to_arrow(messages))
        self.part.report(self.plan)
        if batch.num_rows:
            self.part.emit(batch)
        for each in self.above:
            each.show(messages)

    def ends(self) -> Iterator[Part]:
        yield self.part


@dataclass(frozen=True)
class _SinkDelivery:
    """Writes rows with a sink that takes them as they are in the JVM."""

    plan: LocalPlan
    prepared: Rows
    part: Part
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

    def ends(self) -> Iterator[Part]:
        return iter(())


@dataclass(frozen=True)
class _BranchDelivery:
    """Passes the rows of a node on to several consumers."""

    #: takes the rows for consumers without a plan of their own, and counts them
    others: LocalDelivery
    branches: Sequence[LocalDelivery]

    @classmethod
    def of(cls, source: StreamedSource[Any], others: Part, branches: Sequence[LocalDelivery]) -> _BranchDelivery | None:
        delivery = _to_arrow(source, others)
        return None if isinstance(delivery, NeedsJob) else cls(delivery, branches)

    def deliver(self, messages: Any) -> None:
        self.others.deliver(messages)
        for branch in self.branches:
            branch.deliver(messages)

    def ends(self) -> Iterator[Part]:
        for delivery in (self.others, *self.branches):
            yield from delivery.ends()


@dataclass(frozen=True)
class _RejectingDelivery:
    """Two plans over the same messages: the first finds the rejected rows, the second passes the valid ones on."""

    plan: LocalPlan
    rejected: Rows
    split: SplitRejectedStep
    valid: LocalDelivery

    @classmethod
    def of(
        cls, source: StreamedSource[Any], rows: Rows, split: SplitRejectedStep, meter: NodeMeter | None
    ) -> _RejectingDelivery | NeedsJob:
        rejected = rejected_rows(rows)
        plan = source.local_plan(rejected.frame())
        valid = _longest(source, Part.of_source(valid_rows(rows), split.outlet, meter))
        if isinstance(plan, NeedsJob):
            return plan
        return valid if isinstance(valid, NeedsJob) else cls(plan, rejected, split, valid)

    def deliver(self, messages: Any) -> None:
        batch = self.rejected.job(lambda: self.plan.to_arrow(messages))
        if batch.num_rows:
            self.split.send(Rows(self.rejected.session, batches=[batch], producer=self.rejected.producer))
        self.valid.deliver(messages)

    def ends(self) -> Iterator[Part]:
        return self.valid.ends()
